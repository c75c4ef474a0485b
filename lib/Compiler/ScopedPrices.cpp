//===- ScopedPrices.cpp - A report's times of another machine ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScopedPrices.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/Prediction.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

static DictionaryAttr getSchedule(func::FuncOp function) {
  return function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule);
}

/// Whether calls are predicted together, since some go on behind others.
static bool areCarried(ArrayRef<func::FuncOp> calls) {
  return llvm::all_of(calls, getSchedule) &&
         llvm::any_of(calls, [](func::FuncOp call) {
           return !call.getOps<exec::WaitCarriedOp>().empty();
         });
}

ScopedPrices::ScopedPrices(ModuleOp module, const MachineProfile &machine,
                           std::shared_ptr<const MeasuredCosts> measured) {
  auto getCosts = [&](func::FuncOp function) {
    MeshOp mesh = getMesh(function);
    return CostModel(machine, mesh ? mesh.getNumRanks() : 1, measured);
  };
  for (auto function : module.getOps<func::FuncOp>())
    if (DictionaryAttr schedule = getSchedule(function)) {
      before.push_back({function, schedule});
      set(function, getCosts(function).predictStep(function));
    }
  for (const auto &calls : exec::listTrainingCalls(module))
    if (areCarried(calls))
      for (auto [call, prediction] :
           llvm::zip_equal(calls, getCosts(calls.back()).predictCalls(calls)))
        set(call, prediction);
}

ScopedPrices::~ScopedPrices() {
  for (auto [function, schedule] : before)
    function->setAttr(ExecDialect::kSchedule, schedule);
}

void ScopedPrices::set(func::FuncOp function,
                       const StepPrediction &prediction) {
  MLIRContext *context = function.getContext();
  NamedAttrList entries(getSchedule(function));
  exec::setPrediction(entries, prediction, context);
  if (auto paging =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kPaging)) {
    const double copies =
        paging.getAs<FloatAttr>("exposed_ms").getValueAsDouble();
    entries.set("predicted_step_ms",
                Builder(context).getF64FloatAttr(prediction.getSeconds() * 1e3 +
                                                 copies));
  }
  function->setAttr(ExecDialect::kSchedule, entries.getDictionary(context));
}
