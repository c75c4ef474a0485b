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
  /// Of a quick plan, once it was made.
  int64_t arenaBytes = 0;
};

class OverlapChoice {
public:
  OverlapChoice(func::FuncOp function, ScheduledFunction &scheduled)
      : function(function), scheduled(scheduled),
        given(listOperations(function)) {}

  OverlapOutcome run(const ExtraWorkspace &workspace) {
    const int64_t alive = scheduled.getPeakBytes();
    const int64_t bound = alive + workspace.getBytes(alive);
    for (std::optional<unsigned> reach : kReaches)
      candidates.push_back(attempt(bound, reach));
    sort();
    int64_t limit = bound + alive / kFragments;
    for (Candidate &candidate : candidates)
      if (plan(candidate, limit) <= limit)
        return take(candidate);
    // What has as many fragments without overlap has them with it, too.
    restoreOrder(function, given);
    int64_t arena = estimateArenaBytes(scheduled.collectLiveRanges(), limit);
    limit = std::max(limit, arena + arena / kFragments);
    for (Candidate &candidate : candidates)
      if (candidate.arenaBytes <= limit)
        return take(candidate);
    Candidate best = std::move(*llvm::min_element(candidates, hasSmallerArena));
    int64_t bytes = bound;
    for (int retry = 0; retry < kMostRetries && best.arenaBytes > limit;
         ++retry) {
      bytes -= best.arenaBytes - limit;
      Candidate candidate = attempt(bytes, best.reach);
      plan(candidate, limit);
      best = std::min(std::move(best), std::move(candidate), hasSmallerArena);
    }
    return take(best);
  }

private:
  static bool hasSmallerArena(const Candidate &a, const Candidate &b) {
    return a.arenaBytes < b.arenaBytes;
  }

  Candidate attempt(int64_t bytes, std::optional<unsigned> reach) {
    scheduled.overlap(bytes, reach);
    auto [notOverlapped, bounded] = scheduled.countNotOverlapped();
    Candidate made{reach,
                   {notOverlapped, bounded, scheduled.getPeakBytes()},
                   scheduled.predictSeconds(),
                   listOperations(function)};
    LDBG() << "overlap within " << bytes << " bytes, reach "
           << reach.value_or(0) << ": " << made.outcome.peakBytes
           << " bytes alive, " << made.seconds << " s; " << notOverlapped
           << " collectives not overlapped, " << bounded
           << " for want of workspace";
    return made;
  }

  /// The fastest first; of equal ones that with the fewest bytes.
  void sort() {
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate &candidate : candidates)
      least = std::min(least, candidate.seconds);
    auto getKey = [&](const Candidate &candidate) {
      return std::pair(std::max(candidate.seconds, (1 + kSameTime) * least),
                       candidate.outcome.peakBytes);
    };
    llvm::stable_sort(candidates, [&](const Candidate &a, const Candidate &b) {
      return getKey(a) < getKey(b);
    });
  }

  int64_t plan(Candidate &candidate, int64_t enough) {
    restoreOrder(function, candidate.order);
    candidate.arenaBytes =
        estimateArenaBytes(scheduled.collectLiveRanges(), enough);
    LDBG() << "reach " << candidate.reach.value_or(0) << " has an arena of "
           << candidate.arenaBytes << " bytes";
    return candidate.arenaBytes;
  }

  OverlapOutcome take(const Candidate &candidate) {
    restoreOrder(function, candidate.order);
    return candidate.outcome;
  }

  func::FuncOp function;
  ScheduledFunction &scheduled;
  SmallVector<Operation *> given;
  SmallVector<Candidate> candidates;
};
} // namespace

OverlapOutcome exec::overlapWithin(func::FuncOp function,
                                   ScheduledFunction &scheduled,
                                   const ExtraWorkspace &workspace) {
  return OverlapChoice(function, scheduled).run(workspace);
}
