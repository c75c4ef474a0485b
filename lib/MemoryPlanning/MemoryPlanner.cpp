//===- MemoryPlanner.cpp - Offsets for live ranges in one arena -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include "BothEnds.h"
#include "EjectionSearch.h"
#include "PeakFirst.h"
#include "Portfolio.h"
#include "Problem.h"
#include "SkylineSearch.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

using namespace optimus_planning;

int64_t optimus_planning::lowerBound(std::span<const LiveRange> ranges) {
  assert(!checkRanges(ranges) && "bad ranges");
  std::vector<Component> components = splitInTime(ranges);
  return components.empty() ? 0 : components.front().lowerBound;
}

/// Nodes that cost too little to be weighed against bytes: a fifth of a second.
static constexpr int64_t kLeastNodes = 20'000;
/// Rounds of placing from both ends, of a five-hundredth of a second.
static constexpr int kRounds = 400;

namespace {

/// The search over arena sizes, each asked of every component that is larger.
class ArenaSearch {
public:
  ArenaSearch(const std::vector<Component> &components,
              std::vector<Placement> &placements, int64_t bound,
              int64_t nodes, Deadline deadline)
      : components(components), placements(placements),
        step(arenaStep(components)), proven(bound), nodesLeft(nodes),
        searches(components.size()), deadline(deadline) {}

  int64_t arena() const {
    int64_t largest = 0;
    for (const Placement &placement : placements)
      largest = std::max(largest, placement.arenaBytes);
    return largest;
  }

  /// Tries whether all of it fits in `goal`, within an allowance of nodes.
  void attempt(int64_t goal, int64_t allowance) {
    fit(std::max(goal, proven) / step * step, std::min(nodesLeft, allowance));
  }

  /// Brings the arena down to at most `goal`, or as near as the allowance of
  /// nodes goes. Rounds of bisection, each with twice the nodes for one size:
  /// most of the gain is cheap, and an unreachable size does not spend the
  /// nodes of the next one.
  void bringDownTo(int64_t goal, int64_t allowance) {
    int64_t end = nodesLeft - std::min(nodesLeft, allowance);
    for (int64_t share = kFirstShare; goesOn(end); share = twice(share)) {
      int64_t least = std::max(goal, proven) / step * step;
      if (arena() <= least)
        return;
      int64_t unmet = least - step, capacity = least;
      while (arena() > least && goesOn(end)) {
        if (!fit(capacity, std::min(share, nodesLeft - end)))
          unmet = capacity;
        int64_t between = (arena() - unmet) / step;
        if (between <= 1 || between < arena() / step / kResolution)
          break;
        capacity = unmet + between / 2 * step;
      }
    }
  }

  int64_t provenBound() const { return proven; }
  int64_t nodesLeftOver() const { return nodesLeft; }

private:
  /// Nodes for one size in the first round; five rankings get some.
  static constexpr int64_t kFirstShare = 2000;
  /// Sizes nearer to each other than this part of them are not told apart
  /// until a round knows nothing better.
  static constexpr int64_t kResolution = 200;

  /// Rounds that cost next to nothing are many: no more than there is.
  int64_t twice(int64_t share) const {
    return share <= nodesLeft / 2 ? share * 2 : nodesLeft;
  }

  bool goesOn(int64_t end) const { return isPossible && nodesLeft > end; }

  /// Whether every component was placed within `capacity`.
  bool fit(int64_t capacity, int64_t nodes) {
    SearchBudget budget{nodes, deadline};
    bool fits = true;
    for (size_t i = 0; i < components.size() && fits; ++i) {
      if (placements[i].arenaBytes <= capacity)
        continue;
      std::vector<int64_t> offsets;
      if (!searches[i])
        searches[i].emplace(components[i]);
      if (!searches[i]->isPossible()) {
        isPossible = fits = false;
        break;
      }
      SearchResult result = searches[i]->run(capacity, budget, offsets);
      fits = result == SearchResult::Fits;
      if (result == SearchResult::DoesNotFit)
        proven = std::max(proven, (capacity / step + 1) * step);
      if (!fits)
        break;
      int64_t arenaBytes = 0;
      for (size_t j = 0; j < offsets.size(); ++j)
        arenaBytes =
            std::max(arenaBytes, offsets[j] + components[i].buffers[j].size);
      placements[i] = {std::move(offsets), arenaBytes, "search"};
    }
    nodesLeft -= nodes - budget.nodes;
    if (budget.isLate())
      nodesLeft = 0;
    return fits;
  }

  const std::vector<Component> &components;
  std::vector<Placement> &placements;
  const int64_t step;
  /// No arena is smaller.
  int64_t proven;
  int64_t nodesLeft;
  /// Whether no component that must shrink has too many buffers.
  bool isPossible = true;
  /// By component, made when one is needed.
  std::vector<std::optional<SkylineSearch>> searches;
  Deadline deadline;
};

/// The local search over arena sizes, in whichever component is largest.
class ArenaImprovement {
public:
  ArenaImprovement(const std::vector<Component> &components,
                   std::vector<Placement> &placements)
      : components(components), placements(placements),
        step(arenaStep(components)), searches(components.size()) {}

  /// Brings the arena down to at most `goal`, or as near as the budget goes.
  void bringDownTo(int64_t goal, SearchBudget &budget) {
    while (budget.nodes > 0 && !budget.isLate()) {
      size_t largest =
          std::max_element(placements.begin(), placements.end(),
                           [](const Placement &a, const Placement &b) {
                             return a.arenaBytes < b.arenaBytes;
                           }) -
          placements.begin();
      int64_t least =
          std::max(goal / step * step, components[largest].lowerBound);
      if (placements[largest].arenaBytes <= least)
        return;
      if (!searches[largest])
        searches[largest].emplace(components[largest], step);
      // In turns: another one may be the largest by then.
      const int64_t turn = std::min(budget.nodes, kTurn);
      SearchBudget part{turn, budget.deadline};
      searches[largest]->improve(placements[largest], least, part);
      budget.nodes -= turn - part.nodes;
    }
  }

private:
  static constexpr int64_t kTurn = 100'000;

  const std::vector<Component> &components;
  std::vector<Placement> &placements;
  const int64_t step;
  /// By component, made when one is needed.
  std::vector<std::optional<EjectionSearch>> searches;
};

} // namespace

Plan optimus_planning::plan(std::span<const LiveRange> ranges,
                            const Options &options) {
  assert(!checkRanges(ranges) && "bad ranges");
  Plan plan;
  for (const LiveRange &range : ranges)
    plan.offsets.push_back(range.fixedOffset.value_or(0));
  std::vector<Component> components = splitInTime(ranges);
  if (components.empty()) {
    plan.order = "empty";
    plan.optimal = true;
    return plan;
  }
  int64_t bound = components.front().lowerBound;
  plan.lowerBound = bound;

  auto multipleOfBound = [&](double factor) {
    return std::max(bound, static_cast<int64_t>(std::floor(
                               static_cast<double>(bound) * factor)));
  };
  const int64_t goodEnough = multipleOfBound(options.goodEnough);
  // With nearly twice as many fragments.
  const int64_t fair = multipleOfBound(1.9 * options.goodEnough - 0.9);

  // About half a second of looking at placed buffers.
  int64_t work = 250'000'000;
  std::vector<Placement> placements;
  // Where the capacity is met, nobody asks for less.
  int64_t arena = std::max(bound, options.capacity.value_or(0));
  for (const Component &component : components) {
    // A component need not be smaller than the largest one.
    placements.push_back(placeByPortfolio(component, arena, goodEnough,
                                          options.bytesPerNode, work));
    arena = std::max(arena, placements.back().arenaBytes);
  }

  const Deadline deadline = deadlineOf(options);
  ArenaSearch search(components, placements, bound, options.nodeLimit,
                     deadline);
  ArenaImprovement improvement(components, placements);
  auto isMet = [&] {
    return options.capacity && search.arena() <= *options.capacity;
  };
  /// The part of a limit in proportion to the bytes that could be saved.
  auto worth = [&](int64_t limit) {
    if (options.bytesPerNode == 0)
      return limit;
    return std::min(limit, kLeastNodes + (search.arena() - goodEnough) /
                                             options.bytesPerNode);
  };
  const int64_t moveLimit = options.moveLimit.value_or(
      options.timeout ? std::numeric_limits<int64_t>::max()
                      : options.nodeLimit);
  auto improve = [&](int64_t goal, int64_t moves, Deadline end) {
    if (isMet())
      return;
    SearchBudget budget{moves, end};
    improvement.bringDownTo(
        std::max(options.capacity.value_or(goal), search.provenBound()),
        budget);
    plan.moves += moves - budget.nodes;
  };

  // Among so many the local search finds little. The first component has the
  // largest lower bound.
  if (const Component &component = components.front();
      component.buffers.size() > kManyBuffers && moveLimit > 0 && !deadline) {
    Placement &largest = placements.front();
    auto lowerTo = [&](int64_t enough, auto place) {
      if (largest.arenaBytes > std::max(enough, options.capacity.value_or(0)))
        if (std::optional<Placement> better = place())
          largest = std::move(*better);
    };
    lowerTo(goodEnough, [&] {
      return placePeakFirst(ranges, component, options, largest.arenaBytes,
                            plan.moves);
    });
    // Where nearly all of the bound is alive for long, that is most buffers.
    lowerTo(fair, [&] {
      return placeFromBothEnds(ranges, component, fair, kRounds);
    });
  }

  // A search with a time limit may be long and find nothing: what it cannot
  // prove in a moment waits until the local search had half of the time.
  if (deadline && options.nodeLimit > kLeastNodes) {
    if (options.capacity)
      search.attempt(std::max(*options.capacity, bound), kLeastNodes);
    else
      search.bringDownTo(goodEnough, kLeastNodes);
    auto now = std::chrono::steady_clock::now();
    improve(goodEnough, moveLimit, now + (*deadline - now) / 2);
  }
  // The capacity is worth most of the nodes.
  if (options.capacity && !isMet())
    search.attempt(std::max(*options.capacity, bound),
                   options.nodeLimit - options.nodeLimit / 4);
  if (!isMet())
    search.bringDownTo(goodEnough, worth(options.nodeLimit));
  improve(goodEnough, std::min(worth(moveLimit), moveLimit - plan.moves),
          deadline);
  improve(multipleOfBound(options.far), options.farMoveLimit - plan.moves,
          deadline);

  for (size_t i = 0; i < components.size(); ++i) {
    const std::vector<Buffer> &buffers = components[i].buffers;
    for (size_t j = 0; j < buffers.size(); ++j)
      plan.offsets[buffers[j].range] = placements[i].offsets[j];
    if (placements[i].arenaBytes > plan.arenaBytes) {
      plan.arenaBytes = placements[i].arenaBytes;
      plan.order = placements[i].order;
    }
  }
  plan.searchNodes = options.nodeLimit - search.nodesLeftOver();
  plan.optimal = plan.arenaBytes <= search.provenBound();
  return plan;
}
