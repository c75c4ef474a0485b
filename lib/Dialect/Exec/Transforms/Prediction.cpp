//===- Prediction.cpp - What a schedule says of time ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/Prediction.h"

#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using optimus::EntryKind;

SmallVector<SmallVector<func::FuncOp>>
exec::listTrainingCalls(ModuleOp module) {
  SmallVector<SmallVector<func::FuncOp>> steps;
  for (func::FuncOp train : optimus::findEntries(module, EntryKind::Train))
    steps.push_back({train});
  SmallVector<func::FuncOp> before;
  for (func::FuncOp accumulate :
       optimus::findEntries(module, EntryKind::Accumulate)) {
    llvm::append_range(before,
                       optimus::findEntries(module, EntryKind::Prepare));
    before.push_back(accumulate);
  }
  for (func::FuncOp update : optimus::findEntries(module, EntryKind::Update)) {
    steps.push_back(before);
    steps.back().push_back(update);
  }
  return steps;
}

void exec::setPrediction(NamedAttrList &entries,
                         const optimus::StepPrediction &prediction,
                         MLIRContext *context) {
  Builder b(context);
  auto number = [&](StringRef name, double seconds) {
    return b.getNamedAttr(name, b.getF64FloatAttr(seconds * 1e3));
  };
  auto count = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  SmallVector<Attribute> waits;
  for (const optimus_prices::ExposedCollectives &entry : prediction.exposed)
    waits.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("axis", b.getStringAttr(entry.axis)),
         b.getNamedAttr("collective", b.getStringAttr(toString(entry.kind))),
         count("count", entry.count), number("ms", entry.seconds),
         number("queued_ms", entry.queuedSeconds),
         number("idle_ms", entry.idleSeconds)}));
  SmallVector<NamedAttribute> parts;
  for (auto [kind, seconds] : prediction.parts)
    parts.push_back(number(kind, seconds));
  entries.set("waits", b.getArrayAttr(waits));
  for (const NamedAttribute &time :
       {number("predicted_step_ms", prediction.getSeconds()),
        number("predicted_comm_ms", prediction.commSeconds),
        number("predicted_exposed_ms", prediction.exposedSeconds)})
    entries.set(time.getName(), time.getValue());
  entries.set("predicted_parts_ms", b.getDictionaryAttr(parts));
  const optimus_prices::CarriedCollectives &carried = prediction.carried;
  if (carried.count > 0 || carried.exposedSeconds > 0)
    entries.set("carried",
                b.getDictionaryAttr(
                    {count("count", carried.count),
                     number("ms", carried.seconds),
                     number("after_ms", carried.afterSeconds),
                     number("exposed_ms", carried.exposedSeconds)}));
}
