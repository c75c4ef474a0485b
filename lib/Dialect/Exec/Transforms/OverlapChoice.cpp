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

#include <numeric>

#define DEBUG_TYPE "optimus-schedule"

using namespace mlir;
using namespace mlir::exec;

/// As far as memory goes, and shares of what may be under way on an axis. Links
/// that are the bottleneck are never idle with any of them.
static constexpr std::optional<unsigned> kReaches[] = {
    std::nullopt, 4 * OPTRT_MAX_IN_FLIGHT, OPTRT_MAX_IN_FLIGHT,
    OPTRT_MAX_IN_FLIGHT / 4};
/// Where none of them fits: this one and shorter ones.
static constexpr unsigned kLeastReach = OPTRT_MAX_IN_FLIGHT / 16;
/// Steps nearer to each other than this part of them count as equal.
static constexpr double kSameTime = 0.005;
/// What fragments may take of the bytes alive without overlap: a 55th. The arena
/// may have a 50th more than them; panels chosen for overlap hold the rest.
static constexpr int64_t kFragments = 55;
/// How many sizes are tried where the whole allowance is too much.
static constexpr int kMostAttempts = 4;

namespace {
/// A schedule of the function.
struct Candidate {
  /// That may be alive.
  int64_t bytes;
  std::optional<unsigned> reach;
  OverlapOutcome outcome;
  double seconds = 0;
  ScheduledFunction::Order order;
  /// Of a quick plan, once it was made.
  int64_t arenaBytes = 0;
};

class OverlapChoice {
public:
  explicit OverlapChoice(ScheduledFunction &scheduled)
      : scheduled(scheduled), given(scheduled.getOrder()) {}

  OverlapOutcome run(const ExtraWorkspace &workspace) {
    const int64_t alive = scheduled.getPeakBytes();
    const int64_t bound = alive + workspace.getBytes(alive);
    std::vector<Candidate> candidates = attemptAll(bound);
    int64_t limit = bound + alive / kFragments;
    if (const Candidate *found = findWithin(limit, candidates))
      return take(*found);
    // What has as many fragments without overlap has them with it, too.
    scheduled.setOrder(given);
    int64_t arena = planArena(scheduled.collectLiveRanges()).arenaBytes;
    limit = std::max(limit, arena + arena / kFragments);
    if (const Candidate *found = findWithin(limit, candidates))
      return take(*found);
    if (candidates.empty())
      return withoutOverlap();
    return searchBelow(*llvm::min_element(candidates, hasSmallerArena), alive,
                       limit);
  }

private:
  static bool hasSmallerArena(const Candidate &a, const Candidate &b) {
    return a.arenaBytes < b.arenaBytes;
  }

  /// Searches the most bytes alive for which an arena of `limit` has room, with
  /// `tightest`'s reach: fewer than it was granted, and at least those that are
  /// alive without overlap. Of the schedules on the way the fastest that fits;
  /// the order as it was given fits in any case.
  OverlapOutcome searchBelow(const Candidate &tightest, int64_t alive,
                             int64_t limit) {
    std::optional<Candidate> best;
    auto tryWithin = [&](int64_t bytes, std::optional<unsigned> reach) {
      std::optional<Candidate> candidate = attempt(bytes, reach);
      const bool fits = candidate && findWithin(limit, *candidate);
      if (fits && (!best || candidate->seconds < best->seconds))
        best = std::move(candidate);
      return fits;
    };
    int64_t enough = alive, tooMany = tightest.bytes;
    // Fragments take about as much with a few bytes fewer.
    int64_t bytes = tooMany - (tightest.arenaBytes - limit);
    for (int attempts = 0; attempts < kMostAttempts && tooMany > alive;
         ++attempts) {
      bytes = std::max(alive, bytes);
      (tryWithin(bytes, tightest.reach) ? enough : tooMany) = bytes;
      bytes = std::midpoint(enough, tooMany);
    }
    // What starts late lies in memory for a short time, between the others.
    for (unsigned reach = kLeastReach; !best && reach > 0; reach /= 4)
      (void)tryWithin(alive, reach);
    return best ? take(*best) : withoutOverlap();
  }

  OverlapOutcome withoutOverlap() {
    scheduled.restore();
    return describe();
  }

  OverlapOutcome describe() {
    auto [notOverlapped, bounded] = scheduled.countNotOverlapped();
    return {notOverlapped, bounded, scheduled.getPeakBytes()};
  }

  /// Schedules of all reaches: the fastest first; of equal ones that with the
  /// fewest bytes.
  std::vector<Candidate> attemptAll(int64_t bytes) {
    std::vector<Candidate> candidates;
    double least = std::numeric_limits<double>::infinity();
    for (std::optional<unsigned> reach : kReaches)
      if (std::optional<Candidate> candidate = attempt(bytes, reach);
          candidate && llvm::none_of(candidates, [&](const Candidate &other) {
            return other.order == candidate->order;
          })) {
        least = std::min(least, candidate->seconds);
        candidates.push_back(std::move(*candidate));
      }
    auto getKey = [&](const Candidate &candidate) {
      return std::pair(std::max(candidate.seconds, (1 + kSameTime) * least),
                       candidate.outcome.peakBytes);
    };
    llvm::stable_sort(candidates, [&](const Candidate &a, const Candidate &b) {
      return getKey(a) < getKey(b);
    });
    return candidates;
  }

  /// Nothing where the bytes alive cannot be kept within so many.
  std::optional<Candidate> attempt(int64_t bytes,
                                   std::optional<unsigned> reach) {
    if (!scheduled.overlap(bytes, reach))
      return std::nullopt;
    Candidate made{bytes, reach, describe(), scheduled.predictSeconds(),
                   scheduled.getOrder()};
    LDBG() << "overlap within " << bytes << " bytes, reach "
           << reach.value_or(0) << ": " << made.outcome.peakBytes
           << " bytes alive, " << made.seconds << " s; "
           << made.outcome.notOverlapped << " collectives not overlapped, "
           << made.outcome.bounded << " for want of workspace";
    return made;
  }

  /// The first candidate with an arena of at most `limit` bytes; plans those
  /// before it.
  Candidate *findWithin(int64_t limit, MutableArrayRef<Candidate> candidates) {
    for (Candidate &candidate : candidates) {
      if (candidate.arenaBytes == 0) {
        scheduled.setOrder(candidate.order);
        candidate.arenaBytes =
            estimateArenaBytes(scheduled.collectLiveRanges(), limit);
        LDBG() << "reach " << candidate.reach.value_or(0) << " has an arena of "
               << candidate.arenaBytes << " bytes";
      }
      if (candidate.arenaBytes <= limit)
        return &candidate;
    }
    return nullptr;
  }

  OverlapOutcome take(const Candidate &candidate) {
    scheduled.setOrder(candidate.order);
    return candidate.outcome;
  }

  ScheduledFunction &scheduled;
  ScheduledFunction::Order given;
};
} // namespace

OverlapOutcome exec::overlapWithin(ScheduledFunction &scheduled,
                                   const ExtraWorkspace &workspace) {
  OverlapOutcome outcome = OverlapChoice(scheduled).run(workspace);
  scheduled.apply();
  return outcome;
}
