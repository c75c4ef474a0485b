//===- LocalValues.cpp - The parts of whole values, in every layout made -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/OptimusToCCL/LocalValues.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-partition"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// Collects the steps while the layout changes.
class LayoutPlan {
public:
  explicit LayoutPlan(ShardingAttr layout) : layout(layout) {}

  /// The dimension that `axis` shards next in `to`, or nothing.
  std::optional<int64_t> getNextShardedDim(StringRef axis, ShardingAttr to) {
    for (int64_t dim = 0; dim < to.getRank(); ++dim) {
      SmallVector<StringRef> axes = layout.getDimAxes(dim);
      axes.push_back(axis);
      SmallVector<StringRef> wanted = to.getDimAxes(dim);
      if (ArrayRef(wanted).take_front(axes.size()) == ArrayRef(axes))
        return dim;
    }
    return std::nullopt;
  }

  void reduce(StringRef axis, ShardingAttr to) {
    SmallVector<StringRef> rest = layout.getUnreducedAxes();
    llvm::erase(rest, axis);
    layout = layout.withUnreduced(rest);
    if (std::optional<int64_t> dim = getNextShardedDim(axis, to)) {
      shard(*dim, axis);
      steps.push_back({LayoutStep::ReduceScatter, axis, *dim, layout});
      return;
    }
    steps.push_back({LayoutStep::AllReduce, axis, 0, layout});
  }

  /// Puts parts together until the axes that shard `dim` begin those of `to`.
  void gather(int64_t dim, ShardingAttr to) {
    SmallVector<StringRef> axes = layout.getDimAxes(dim);
    SmallVector<StringRef> wanted = to.getDimAxes(dim);
    while (ArrayRef<StringRef>(wanted).take_front(axes.size()) !=
           ArrayRef<StringRef>(axes)) {
      StringRef axis = axes.pop_back_val();
      layout = layout.withDimAxes(dim, axes);
      steps.push_back({LayoutStep::AllGather, axis, dim, layout});
    }
  }

  void slice(int64_t dim, ShardingAttr to) {
    SmallVector<StringRef> wanted = to.getDimAxes(dim);
    for (StringRef axis :
         ArrayRef(wanted).drop_front(layout.getDimAxes(dim).size())) {
      shard(dim, axis);
      steps.push_back({LayoutStep::Slice, axis, dim, layout});
    }
  }

  SmallVector<LayoutStep> takeSteps() { return std::move(steps); }

private:
  void shard(int64_t dim, StringRef axis) {
    SmallVector<StringRef> axes = layout.getDimAxes(dim);
    axes.push_back(axis);
    layout = layout.withDimAxes(dim, axes);
  }

  ShardingAttr layout;
  SmallVector<LayoutStep> steps;
};
} // namespace

std::optional<SmallVector<LayoutStep>>
mlir::optimus::planLayout(ShardingAttr from, ShardingAttr to) {
  for (StringRef axis : to.getUnreducedAxes())
    if (!from.isUnreducedOver(axis))
      return std::nullopt;
  LayoutPlan plan(from);
  SmallVector<StringRef> sums = from.getUnreducedAxes();
  llvm::erase_if(sums,
                 [&](StringRef axis) { return to.isUnreducedOver(axis); });
  // A sum is scattered before others are made whole. These then move a part:
  //   [{}] unreduced {col, row} -> [{row}] unreduced {col} -> [{row}]
  // Sums over replicas keep all in the order of a step of training.
  const bool keepsOrder = llvm::is_contained(sums, Strategy::kDataAxis);
  for (bool isFirst : {true, false})
    for (StringRef axis : llvm::to_vector(sums))
      if (!isFirst || keepsOrder || plan.getNextShardedDim(axis, to)) {
        plan.reduce(axis, to);
        llvm::erase(sums, axis);
      }
  for (int64_t dim = 0; dim < to.getRank(); ++dim)
    plan.gather(dim, to);
  for (int64_t dim = 0; dim < to.getRank(); ++dim)
    plan.slice(dim, to);
  return plan.takeSteps();
}

static int64_t countCollectives(ArrayRef<LayoutStep> steps) {
  return llvm::count_if(steps, [](const LayoutStep &step) {
    return step.kind != LayoutStep::Slice;
  });
}

Type LocalValues::getPartialSumType(Value whole) const {
  Type element = getElementTypeOrSelf(whole);
  Operation *maker = whole.getDefiningOp();
  if (!reducesWide || !isa<FloatType>(element) || !maker ||
      !(isProduct(maker) || isa<HeadLossGradOp>(maker)))
    return element;
  return Float32Type::get(whole.getContext());
}

RankedTensorType LocalValues::getType(Value whole, ShardingAttr layout) const {
  auto type = cast<RankedTensorType>(whole.getType());
  Type element = layout.getUnreduced().empty() ? type.getElementType()
                                               : getPartialSumType(whole);
  return ccl::getLocalType(type.getShape(), classes.getPaddedShape(whole),
                           element, layout, mesh);
}

SmallVector<Value> LocalValues::getLocals(Value whole) const {
  auto known = layouts.find(whole);
  if (known == layouts.end())
    return {};
  return llvm::map_to_vector(known->second,
                             [](const Layout &layout) { return layout.local; });
}

ShardingAttr LocalValues::getPartialSumLayout(Value whole) const {
  auto known = layouts.find(whole);
  if (known == layouts.end() || known->second.size() != 1)
    return {};
  ShardingAttr layout = known->second.front().sharding;
  return layout.getUnreduced().empty() ? ShardingAttr() : layout;
}

bool LocalValues::has(Value whole, ShardingAttr layout) const {
  auto known = layouts.find(whole);
  return known != layouts.end() &&
         llvm::any_of(known->second, [&](const Layout &other) {
           return other.sharding == layout;
         });
}

bool LocalValues::canReach(Value whole, ShardingAttr layout) const {
  auto known = layouts.find(whole);
  return known != layouts.end() &&
         llvm::any_of(known->second, [&](const Layout &other) {
           return planLayout(other.sharding, layout).has_value();
         });
}

const LocalValues::Layout &LocalValues::getNearest(Value whole,
                                                   ShardingAttr layout) {
  const Layout *best = nullptr;
  std::pair<int64_t, int64_t> fewest;
  for (const Layout &other : layouts[whole]) {
    auto steps = planLayout(other.sharding, layout);
    if (!steps)
      continue;
    std::pair<int64_t, int64_t> count = {countCollectives(*steps),
                                         steps->size()};
    if (!best || count < fewest) {
      best = &other;
      fewest = count;
    }
  }
  assert(best && "the layout is within reach");
  return *best;
}

Value LocalValues::get(Value whole, ShardingAttr layout, Location loc) {
  const Layout &nearest = getNearest(whole, layout);
  if (nearest.sharding == layout)
    return nearest.local;
  Value local = convert(whole, nearest, layout, loc);
  add(whole, layout, local);
  return local;
}

Value LocalValues::getTransient(Value whole, ShardingAttr layout,
                                Location loc) {
  const Layout &nearest = getNearest(whole, layout);
  if (nearest.sharding == layout)
    return nearest.local;
  if (transientWhole != whole || transient.sharding != layout) {
    transientWhole = whole;
    transient = {layout, convert(whole, nearest, layout, loc)};
  }
  return transient.local;
}

/// The location of an operation that goes on with the result of another.
static Location getMakerLoc(Value result, StringRef part) {
  Location maker = result.getLoc();
  return withResult(withPart(maker, part),
                    getFirstResult(maker) +
                        cast<OpResult>(result).getResultNumber());
}

/// A sum belongs to the maker of its partial sums, other steps to their user.
static Location getStepLoc(LayoutStep::Kind kind, Value local, Location user) {
  constexpr StringLiteral parts[] = {"all_reduce", "reduce_scatter",
                                     "all_gather", "slice"};
  bool sums =
      kind == LayoutStep::AllReduce || kind == LayoutStep::ReduceScatter;
  if (!sums || !isa<OpResult>(local))
    return withPart(user, parts[kind]);
  return getMakerLoc(local, parts[kind]);
}

Value LocalValues::convert(Value local, ArrayRef<int64_t> paddedShape,
                           ShardingAttr from, ShardingAttr to, Location loc) {
  return convert(local, paddedShape, getElementTypeOrSelf(local), from, to,
                 loc);
}

Value LocalValues::convert(Value whole, const Layout &nearest, ShardingAttr to,
                           Location loc) {
  return convert(nearest.local, classes.getPaddedShape(whole),
                 getElementTypeOrSelf(whole), nearest.sharding, to, loc);
}

Value LocalValues::complete(Value sum, Type elementType) {
  auto type = cast<RankedTensorType>(sum.getType());
  if (type.getElementType() == elementType)
    return sum;
  return CastOp::create(builder, getMakerLoc(sum, "cast"),
                        type.clone(elementType), sum);
}

Value LocalValues::convert(Value local, ArrayRef<int64_t> paddedShape,
                           Type elementType, ShardingAttr from, ShardingAttr to,
                           Location loc) {
  auto steps = planLayout(from, to);
  assert(steps && "the layout is within reach");
  SmallVector<int64_t> shape = ccl::getGlobalShape(local.getType());
  for (const LayoutStep &step : *steps) {
    Type type = ccl::getLocalType(
        shape, paddedShape, getElementTypeOrSelf(local), step.result, mesh);
    Location stepLoc = getStepLoc(step.kind, local, loc);
    LDBG() << "reshard over " << step.axis << " to " << step.result << " for "
           << describeLocation(stepLoc);
    switch (step.kind) {
    case LayoutStep::AllReduce:
      local =
          ccl::AllReduceOp::create(builder, stepLoc, type, local, step.axis);
      break;
    case LayoutStep::ReduceScatter:
      local = ccl::ReduceScatterOp::create(builder, stepLoc, type, local,
                                           step.axis, step.dim);
      break;
    case LayoutStep::AllGather:
      local = ccl::AllGatherOp::create(builder, stepLoc, type, local, step.axis,
                                       step.dim);
      break;
    case LayoutStep::Slice:
      local = ccl::SliceOp::create(builder, stepLoc, type, local, step.axis,
                                   step.dim);
      break;
    }
    // Sums come before what moves them on.
    if (step.result.getUnreduced().empty())
      local = complete(local, elementType);
  }
  numCollectives += countCollectives(*steps);
  return local;
}
