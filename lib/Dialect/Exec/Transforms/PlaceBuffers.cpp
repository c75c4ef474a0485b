//===- PlaceBuffers.cpp - Places every buffer of a function in one arena *- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arena.h"

#include "optimus/Dialect/Exec/Transforms/Communication.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"

#include "llvm/Support/DebugLog.h"

#include <map>

#define DEBUG_TYPE "optimus-place-buffers"

namespace mlir::exec {
#define GEN_PASS_DEF_PLACEBUFFERSPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus_planning::LiveRange;
using optimus_planning::Plan;

/// Bytes by category at the time when most are alive.
static std::map<std::string, int64_t>
getPeakByCategory(ArrayRef<AllocOp> allocations, ArrayRef<LiveRange> ranges) {
  // From each time of change on: how many bytes are alive.
  std::map<int64_t, int64_t> alive;
  for (const LiveRange &range : ranges) {
    int64_t bytes = optimus_planning::paddedSize(range);
    alive[range.lower] += bytes;
    alive[range.upper] -= bytes;
  }
  int64_t sum = 0;
  for (auto &[time, bytes] : alive)
    bytes = sum += bytes;
  // It grows only where a range begins.
  int64_t peakTime = 0, peak = -1;
  for (const LiveRange &range : ranges)
    if (int64_t bytes = alive.at(range.lower); bytes > peak)
      std::tie(peak, peakTime) = std::make_pair(bytes, range.lower);
  std::map<std::string, int64_t> byCategory;
  for (auto [op, range] : llvm::zip_equal(allocations, ranges)) {
    AllocOp allocation = op;
    int64_t &bytes = byCategory[allocation.getCategory().str()];
    if (range.lower <= peakTime && peakTime < range.upper)
      bytes += optimus_planning::paddedSize(range);
  }
  return byCategory;
}

namespace {
class PlaceBuffersPass
    : public exec::impl::PlaceBuffersPassBase<PlaceBuffersPass> {
public:
  using PlaceBuffersPassBase::PlaceBuffersPassBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !isDeviceProgram(function))
      return;
    if (function->hasAttr(ExecDialect::kArenaBytes)) {
      function.emitOpError("has an arena already");
      return signalPassFailure();
    }
    if (failed(verifyAllocations(function)))
      return signalPassFailure();
    intervals = computeLiveIntervals(function);
    SmallVector<AllocOp> allocations = collectAllocations(function);
    numCommands = 0;
    function.walk([&](CommandOpInterface) { ++numCommands; });
    FailureOr<ArrayAttr> communication = describeCommunication(function);
    if (failed(communication))
      return signalPassFailure();
    llvm::MapVector<MemorySpace, SmallVector<AllocOp>> bySpace;
    for (MemorySpace space :
         {MemorySpace::Device, MemorySpace::Host, MemorySpace::File})
      bySpace[space];
    for (AllocOp allocation : allocations)
      bySpace[exec::getMemorySpace(allocation.getBuffer())].push_back(
          allocation);
    // The device's arena is there even where it is empty.
    unsigned numArenas = 0;
    for (auto &[space, own] : bySpace) {
      if (own.empty() && space != MemorySpace::Device)
        continue;
      SmallVector<LiveRange> ranges = getRanges(own);
      FailureOr<Plan> plan = makePlan(function, ranges);
      if (failed(plan))
        return signalPassFailure();
      LDBG() << "@" << function.getSymName() << ": " << own.size()
             << " buffers in " << stringifyMemorySpace(space) << " memory, "
             << plan->arenaBytes << " bytes, at least " << plan->lowerBound;
      if (space == MemorySpace::Device)
        annotate(function, *plan, getPeakByCategory(own, ranges),
                 *communication);
      replace(function, own, *plan, space, numArenas++);
      numBuffers += own.size();
      numArenaBytes += plan->arenaBytes;
      numLowerBoundBytes += plan->lowerBound;
    }
  }

private:
  SmallVector<LiveRange> getRanges(ArrayRef<AllocOp> allocations) {
    SmallVector<LiveRange> ranges = getLiveRanges(allocations, intervals);
    if (noReuse)
      for (LiveRange &range : ranges)
        std::tie(range.lower, range.upper) =
            std::make_pair(int64_t{0}, numCommands);
    return ranges;
  }

  static FailureOr<Plan> makePlan(func::FuncOp function,
                                  ArrayRef<LiveRange> ranges) {
    if (auto mistake = optimus_planning::checkRanges(ranges))
      return function.emitOpError()
             << "has live ranges that cannot be planned: " << *mistake;
    Plan plan = planArena(ranges);
    if (auto mistake = optimus_planning::validate(ranges, plan))
      return function.emitOpError() << "got a wrong arena plan: " << *mistake;
    return plan;
  }

  /// Kernels are functions too, but hold no commands.
  static bool isDeviceProgram(func::FuncOp function) {
    return function
        .walk([](Operation *op) {
          return isa<CommandOpInterface, AllocOp>(op) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// The allocations that commands use; the others are erased.
  SmallVector<AllocOp> collectAllocations(func::FuncOp function) {
    SmallVector<AllocOp> allocations;
    function.walk(
        [&](AllocOp allocation) { allocations.push_back(allocation); });
    llvm::erase_if(allocations, [&](AllocOp allocation) {
      if (intervals.contains(allocation.getBuffer()))
        return false;
      eraseWithViews(allocation);
      return true;
    });
    return allocations;
  }

  /// Erases an operation and the views of its result, which nothing else uses.
  static void eraseWithViews(Operation *op) {
    while (!op->use_empty())
      eraseWithViews(*op->user_begin());
    op->erase();
  }

  void annotate(func::FuncOp function, const Plan &plan,
                const std::map<std::string, int64_t> &peak,
                ArrayAttr communication) {
    Builder builder(&getContext());
    auto integer = [&](int64_t value) {
      return builder.getI64IntegerAttr(value);
    };
    function->setAttr(ExecDialect::kArenaBytes, integer(plan.arenaBytes));
    function->setAttr(ExecDialect::kLowerBoundBytes, integer(plan.lowerBound));
    NamedAttrList categories;
    for (const auto &[category, bytes] : peak)
      categories.append(category, integer(bytes));
    function->setAttr(ExecDialect::kPeakBytes,
                      categories.getDictionary(&getContext()));
    function->setAttr(ExecDialect::kCommunication, communication);
    function->setAttr(ExecDialect::kCommands, integer(numCommands));
  }

  /// Makes an arena argument number `number`, and slots of its allocations.
  void replace(func::FuncOp function, ArrayRef<AllocOp> allocations,
               const Plan &plan, MemorySpace space, unsigned number) {
    OpBuilder builder(function);
    auto type = MemRefType::get({plan.arenaBytes}, builder.getI8Type(),
                                MemRefLayoutAttrInterface(),
                                exec::getMemorySpaceAttr(&getContext(), space));
    (void)function.insertArgument(number, type, {}, function.getLoc());
    for (auto [allocation, offset] :
         llvm::zip_equal(allocations, plan.offsets)) {
      AllocOp op = allocation;
      LDBG() << "at " << offset << ": " << getBufferBytes(op.getBuffer())
             << " bytes of " << op.getCategory() << ' '
             << op.getName().value_or("") << ' '
             << (op.getValuesAttr() ? op.getValuesAttr()
                                    : builder.getArrayAttr({}));
      builder.setInsertionPoint(op);
      Value slot = ArenaSlotOp::create(
          builder, op.getLoc(), op.getBuffer().getType(),
          function.getArgument(number), builder.getI64IntegerAttr(offset),
          op.getCategoryAttr(), op.getNameAttr(), op.getValuesAttr(),
          op.getAlignmentAttr());
      op.getBuffer().replaceAllUsesWith(slot);
      op.erase();
    }
  }

  /// Of the function that is placed.
  llvm::MapVector<Value, LiveInterval> intervals;
  int64_t numCommands = 0;
};
} // namespace
