//===- Peak.cpp - What is alive when most bytes are -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/Peak.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/IR/ValuePattern.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using llvm::formatv;

Peak mlir::optimus::findPeak(func::FuncOp function) {
  SmallVector<exec::CommandOpInterface> commands = exec::getCommands(function);
  Peak peak;
  if (commands.empty())
    return peak;
  SmallVector<int64_t> alive =
      exec::computeAliveBytes(function, [](Value base) {
        return bool(base.getDefiningOp<exec::ArenaSlotOp>());
      });
  int64_t when = llvm::max_element(alive) - alive.begin();
  peak.command = commands[when];
  for (auto [base, interval] : exec::computeLiveIntervals(function))
    if (auto slot = base.getDefiningOp<exec::ArenaSlotOp>();
        slot && interval.first <= when && when <= interval.last)
      peak.slots.push_back(slot);
  llvm::stable_sort(peak.slots, [](exec::ArenaSlotOp a, exec::ArenaSlotOp b) {
    return exec::getPlacedBytes(a) > exec::getPlacedBytes(b);
  });
  return peak;
}

/// A value of any layer: "h.0.mlp.up:0 backward" → "h.*.mlp.up:0 backward".
static std::string ofAnyLayer(StringRef value) {
  size_t end = std::min(value.find(' '), value.size());
  return getPattern(value.take_front(end)) + value.drop_front(end).str();
}

std::string mlir::optimus::describeSlot(exec::ArenaSlotOp slot, Layers layers) {
  SmallVector<std::string> names;
  if (ArrayAttr values = slot.getValuesAttr())
    for (auto value : values.getAsRange<StringAttr>())
      names.push_back(layers == Layers::Any ? ofAnyLayer(value.getValue())
                                            : value.str());
  if (StringAttr name = slot.getNameAttr())
    names.push_back(name.str());
  std::string text = llvm::join(names, ", ");
  if (FileLineColLoc line = getFileLine(slot.getLoc()))
    text += formatv(" ({0}:{1})", line.getFilename().getValue(), line.getLine())
                .str();
  return text;
}
