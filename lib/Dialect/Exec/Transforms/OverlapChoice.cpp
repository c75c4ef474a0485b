//===- OverlapChoice.cpp - The schedule with the best arena -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OverlapChoice.h"

#include "Arena.h"

#include "optimus-support/model_abi.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-schedule"

using namespace mlir;
using namespace mlir::exec;

/// As far as memory goes, and shares of what may be under way on an axis. Links
/// that are the bottleneck are never idle with any of them.
static constexpr std::optional<unsigned> kReaches[] = {
    std::nullopt, 4 * OPTRT_MAX_IN_FLIGHT, OPTRT_MAX_IN_FLIGHT,
    OPTRT_MAX_IN_FLIGHT / 4};
/// Steps nearer to each other than this part of them count as equal.
static constexpr double kSameTime = 0.005;
/// What fragments may take of the bytes alive without overlap: a 50th.
static constexpr int64_t kFragments = 50;
/// How often less is asked for.
static constexpr int kMostRetries = 3;

SmallVector<Operation *> exec::listOperations(func::FuncOp function) {
  SmallVector<Operation *> operations;
  for (Operation &op : function.getBody().front())
    operations.push_back(&op);
  return operations;
}

void exec::restoreOrder(func::FuncOp function,
                        ArrayRef<Operation *> operations) {
  Block &block = function.getBody().front();
  for (Operation *op : operations)
    op->moveBefore(&block, block.end());
  numberCommands(function);
}

namespace {
/// A schedule of the function.
struct Candidate {
  std::optional<unsigned> reach;
  OverlapOutcome outcome;
  double seconds = 0;
  SmallVector<Operation *> order;
};
} // namespace

OverlapOutcome exec::overlapWithin(func::FuncOp function,
                                   ScheduledFunction &scheduled,
                                   const optimus::CostModel &costs,
                                   const ExtraWorkspace &workspace) {
  const int64_t alive = scheduled.getPeakBytes();
  const int64_t bound = alive + workspace.getBytes(alive);
  const int64_t limit = bound + alive / kFragments;
  auto attempt = [&](int64_t bytes, std::optional<unsigned> reach) {
    scheduled.overlap(bytes, reach);
    auto [notOverlapped, bounded] = scheduled.countNotOverlapped();
    Candidate made{reach,
                   {notOverlapped, bounded, scheduled.getPeakBytes()},
                   costs.predictStep(function).getSeconds(),
                   listOperations(function)};
    LDBG() << "overlap within " << bytes << " bytes, reach "
           << reach.value_or(0) << ": live bytes " << alive << " -> "
           << made.outcome.peakBytes << ", " << made.seconds << " s; "
           << notOverlapped << " collectives not overlapped, " << bounded
           << " for want of workspace";
    return made;
  };
  SmallVector<Candidate> candidates;
  double least = std::numeric_limits<double>::infinity();
  for (std::optional<unsigned> reach : kReaches) {
    candidates.push_back(attempt(bound, reach));
    least = std::min(least, candidates.back().seconds);
  }
  llvm::stable_sort(candidates, [&](const Candidate &a, const Candidate &b) {
    double slowerA = std::max(a.seconds, (1 + kSameTime) * least);
    double slowerB = std::max(b.seconds, (1 + kSameTime) * least);
    return std::pair(slowerA, a.outcome.peakBytes) <
           std::pair(slowerB, b.outcome.peakBytes);
  });

  // The best so far, by its arena.
  const Candidate *best = nullptr;
  int64_t bestArena = 0;
  auto consider = [&](const Candidate &candidate) {
    int64_t arena = computeQuickArenaBytes(function);
    LDBG() << "reach " << candidate.reach.value_or(0) << " has an arena of "
           << arena << " bytes; allowed are " << limit;
    if (!best || arena < bestArena)
      std::tie(best, bestArena) = std::pair(&candidate, arena);
    return arena <= limit;
  };
  for (const Candidate &candidate : candidates) {
    restoreOrder(function, candidate.order);
    if (consider(candidate))
      return candidate.outcome;
  }
  Candidate less[kMostRetries];
  int64_t bytes = bound;
  const std::optional<unsigned> reach = best->reach;
  for (Candidate &candidate : less) {
    bytes -= bestArena - limit;
    candidate = attempt(bytes, reach);
    if (consider(candidate))
      return candidate.outcome;
  }
  restoreOrder(function, best->order);
  return best->outcome;
}
