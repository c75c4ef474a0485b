//===- Layout.cpp - How a value lies by its role or path --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include "optimus-support/NearestName.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;

LogicalResult Layout::choose(StringRef text) {
  llvm::Expected<SmallVector<ChosenLayout>> parsed = parseChosenLayouts(text);
  if (!parsed)
    return mesh->getParentOp()->emitError("layouts: ")
           << llvm::toString(parsed.takeError());
  for (const ChosenLayout &layout : *parsed)
    chosen.push_back(
        {layout, cantFail(llvm::GlobPattern::create(layout.pattern))});
  return success();
}

ShardingAttr Layout::cutState(ShardingAttr sharding, RankedTensorType type) {
  const int64_t size = getRanksAlong(mesh, Strategy::kDataAxis);
  if (size == 1)
    return sharding;
  for (auto [dim, extent] : llvm::enumerate(type.getShape())) {
    SmallVector<StringRef> axes = sharding.getDimAxes(dim);
    if (extent % (mesh.getProduct(axes) * size) != 0)
      continue;
    axes.push_back(Strategy::kDataAxis);
    return sharding.withDimAxes(dim, axes);
  }
  return sharding;
}

ShardingAttr Layout::addUp(ShardingAttr sharding) {
  SmallVector<StringRef> used, unreduced;
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    llvm::append_range(used, sharding.getDimAxes(dim));
  for (StringRef axis : strategy.getTokenAxes())
    if (shards(axis) && !llvm::is_contained(used, axis))
      unreduced.push_back(axis);
  return sharding.withUnreduced(unreduced);
}

/// The kind of the function that an operation belongs to, or is.
static std::optional<EntryKind> getKind(Operation *op) {
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    function = op->getParentOfType<func::FuncOp>();
  EntryAttr entry = function ? getEntry(function) : EntryAttr();
  return entry ? std::optional(entry.getKind()) : std::nullopt;
}

/// Whether it is of a function with a cache.
static bool isOfGeneration(Operation *op) {
  std::optional<EntryKind> kind = getKind(op);
  return kind && llvm::is_contained(kGenerationKinds, *kind);
}

const Strategy &Layout::getStrategy(Operation *op, Position position) const {
  for (const EntryStrategy &own : ofEntries)
    if (position == Position::Vector || position == Position::Table ||
        (getKind(op) == own.entry &&
         (position == Position::Activation || position == Position::Tokens)))
      return *own.strategy;
  return strategy;
}

FailureOr<ShardingAttr> Layout::lookup(Operation *op, StringRef role,
                                       StringRef path, RankedTensorType type) {
  bool isState = role.consume_front(OptimusDialect::kStateRole);
  bool isSum = role.consume_front(kSumRole);
  ShardingAttr sharding, kept;
  if (!role.empty()) {
    // A value whose role has a typing mistake would lie anywhere but there.
    llvm::Expected<Role> read = Role::parse(role);
    if (!read)
      return op->emitOpError(llvm::toString(read.takeError()));
    if (std::ssize(read->dims) != type.getRank())
      return op->emitOpError("has a value of rank ")
             << type.getRank() << " with the role '" << role << "' of "
             << read->dims.size() << " dimensions";
    path = read->path;
    if (read->position != Position::Activation)
      kept = annotated.lookup(path);
    if (!strategy.getAxes().empty()) {
      SmallVector<SmallVector<StringRef>> dims =
          getStrategy(op, read->position).layOut(*read, [&](StringRef axis) {
            return shards(axis);
          });
      // One token of a text that is generated is not shared out, nor is a
      // sequence of one.
      if (isOfGeneration(op))
        for (auto [axes, dim, size] :
             llvm::zip(dims, read->dims, type.getShape()))
          if (size == 1 && (dim.dimension == DimensionClass::Batch ||
                            dim.dimension == DimensionClass::Sequence))
            axes.clear();
      sharding = ShardingAttr::get(getMeshRef(), dims);
    }
  }
  FailureOr<ShardingAttr> own = lookupChosen(op, path, type);
  if (failed(own))
    return failure();
  if (kept || *own)
    sharding = kept ? kept : *own;
  if (!sharding)
    return sharding;
  if (isSum)
    return addUp(sharding);
  return isState ? cutState(sharding, type) : sharding;
}

FailureOr<ShardingAttr> Layout::lookupChosen(Operation *op, StringRef path,
                                             RankedTensorType type) {
  if (path.empty() || chosen.empty())
    return ShardingAttr();
  paths.push_back(path.str());
  // The last one wins, so that a pattern can have exceptions.
  Chosen *own = nullptr;
  for (Chosen &each : chosen)
    if (each.glob.match(path)) {
      each.isUsed = true;
      own = &each;
    }
  if (!own)
    return ShardingAttr();
  SmallVector<SmallVector<StringRef>> dims;
  for (StringRef dim : llvm::split(own->layout.layout, ',')) {
    dims.emplace_back();
    for (StringRef axis : llvm::split(dim, '+'))
      if (axis != "-" && shards(axis))
        dims.back().push_back(axis);
  }
  if (std::ssize(dims) != type.getRank())
    return op->emitOpError("has a value of rank ")
           << type.getRank() << " at '" << path << "', which the layout '"
           << own->layout.pattern << '=' << own->layout.layout
           << "' means; expected an entry for each dimension";
  return ShardingAttr::get(getMeshRef(), dims);
}

LogicalResult Layout::checkChosen() {
  for (const Chosen &each : chosen)
    if (!each.isUsed)
      return mesh->getParentOp()->emitError("layouts: nothing is at '")
             << each.layout.pattern
             << "'; expected the path of a parameter or an activation, as "
                "h.0.mlp.c_proj.weight, in which * stands for any part"
             << optimus_support::didYouMean(each.layout.pattern, paths);
  return success();
}
