//===- CheckSizes.cpp - Whether a mesh leaves sizes countable ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckSizes.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::CheckedSize;
using optimus_support::kMaxBytes;
using optimus_support::kMaxElements;

/// What later passes may make of totals, in parts: at most this many times.
static constexpr int64_t kMargin = 4;

static LogicalResult checkPadding(Operation *op, const Twine &what, Value value,
                                  const DimensionClasses &classes) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return success();
  SmallVector<int64_t> padded = classes.getPaddedShape(value);
  CheckedSize elements = CheckedSize::product({padded.data(), padded.size()});
  if (elements.isAtMost(kMaxElements))
    return success();
  return op->emitOpError("has ")
         << what << " of shape [" << type.getShape()
         << "], which this mesh pads to [" << padded << "], "
         << elements.toString() << " elements; expected at most "
         << kMaxElements << ", choose a mesh of shorter axes";
}

LogicalResult mlir::optimus::checkPadding(func::FuncOp function,
                                          const DimensionClasses &classes) {
  for (BlockArgument argument : function.getArguments())
    if (failed(::checkPadding(function,
                              "argument " + Twine(argument.getArgNumber()),
                              argument, classes)))
      return failure();
  for (Operation &op : function.front())
    for (OpResult result : op.getResults())
      if (failed(::checkPadding(&op,
                                "result " + Twine(result.getResultNumber()),
                                result, classes)))
        return failure();
  return success();
}

/// Padding of less than such a part is nothing to speak of, as that of a
/// vocabulary.
static constexpr int64_t kSaidPart = 10;

void mlir::optimus::warnOfPadding(ModuleOp module,
                                  const DimensionClasses &classes) {
  // Layers have their dimensions each.
  SmallVector<std::string> said;
  llvm::SmallPtrSet<const DimensionClasses::Class *, 32> seen;
  auto add = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    for (int64_t dim = 0; type && dim < type.getRank(); ++dim) {
      const DimensionClasses::Class &known = classes.getClass(value, dim);
      int64_t padded = known.getPadded();
      if (!seen.insert(&known).second ||
          padded - std::max(known.size, known.least) <
              llvm::divideCeilSigned(known.size, kSaidPart))
        continue;
      std::string text = llvm::formatv(
          "\"{0}\" from {1} to {2} ({3:f2} times) for {4}", known.name,
          known.size, padded, double(padded) / known.size,
          llvm::join(known.axes, ", "));
      if (!llvm::is_contained(said, text))
        said.push_back(std::move(text));
    }
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    llvm::for_each(function.getArguments(), add);
    for (Operation &op : function.front())
      llvm::for_each(op.getResults(), add);
  }
  if (said.empty())
    return;
  module.emitWarning("this mesh pads ")
      << llvm::join(said, ", ")
      << ": so many times as much is computed, kept and moved of it; choose "
         "sizes that the axes divide, or other axes";
}

static CheckedSize countBytes(ValueRange values) {
  CheckedSize bytes = 0;
  for (Value value : values)
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      bytes =
          bytes + CheckedSize(type.getNumElements()) * getElementBytes(type);
  return bytes;
}

LogicalResult mlir::optimus::checkTotals(func::FuncOp function, MeshOp mesh) {
  int64_t longest = 1;
  for (MeshAxisAttr axis : mesh.getAxisList())
    longest = std::max(longest, axis.getSize());
  CheckedSize held = countBytes(function.getArguments());
  CheckedSize moved = 0;
  for (Operation &op : function.front()) {
    held = held + countBytes(op.getResults());
    if (!isa<ccl::CCLDialect>(op.getDialect()))
      continue;
    // The parts of all ranks, each of which may reach all ranks of an axis, a
    // sum and its result one after the other.
    CheckedSize parts =
        countBytes(op.getOperands()) + countBytes(op.getResults());
    moved = moved + parts * mesh.getNumRanks() * longest * 2;
    // Gathered whole it lies on every rank.
    held = held + parts * longest;
  }
  if (!(held * kMargin).isAtMost(kMaxBytes))
    return function.emitOpError("has tensors of ")
           << held.toString() << " bytes on each rank in all; expected at most "
           << kMaxBytes / kMargin << ", choose more ranks or a smaller model";
  if (!(moved * kMargin).get())
    return function.emitOpError("moves ")
           << moved.toString() << " bytes among all ranks; expected at most "
           << INT64_MAX / kMargin << ", choose fewer ranks or a smaller model";
  return success();
}
