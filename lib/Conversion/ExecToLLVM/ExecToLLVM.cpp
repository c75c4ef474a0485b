//===- ExecToLLVM.cpp - From the device program to LLVM ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Conversion.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Conversion/ExecToProgram/ExecToProgram.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"

namespace mlir::optimus {
#define GEN_PASS_DEF_EXECTOLLVMPASS
#include "optimus/Conversion/ExecToLLVM/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

namespace {
struct ExecToLLVM : optimus::impl::ExecToLLVMPassBase<ExecToLLVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<optimus_support::program::ProgramsT> programs =
        buildPrograms(module, "cpu");
    if (failed(programs))
      return signalPassFailure();
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!function->hasAttr(exec::ExecDialect::kKernel))
        function.erase();
    if (auto mesh = getMesh(module))
      mesh.erase();
    if (failed(convertKernels(module)))
      return signalPassFailure();
    auto manifest = module->getAttrOfType<StringAttr>(kManifestAttr);
    const std::string bytes = optimus_support::program::pack(*programs);
    const auto &target = *programs->targets.front();
    createModelQuery(module, manifest ? manifest.getValue() : "", bytes,
                     target);
    module->removeAttr(kManifestAttr);
    for (const auto &function : target.tables.front()->functions)
      numCommands += function->commands.size();
    numKernels += target.kernels.size();
    numProgramBytes += bytes.size();
  }
};
} // namespace
