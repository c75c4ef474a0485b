//===- MemoryPlanner.cpp - Offsets for live ranges in one arena -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include "Portfolio.h"
#include "Problem.h"
#include "SkylineSearch.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace optimus_planning;

int64_t optimus_planning::lowerBound(std::span<const LiveRange> ranges) {
  assert(!checkRanges(ranges) && "bad ranges");
  std::vector<Component> components = splitInTime(ranges);
  return components.empty() ? 0 : components.front().lowerBound;
}

/// Nodes that cost too little to be weighed against bytes: a fifth of a second.
static constexpr int64_t kLeastNodes = 20'000;

namespace {

/// The search over arena sizes, each asked of every component that is larger.
class ArenaSearch {
public:
  ArenaSearch(const std::vector<Component> &components,
              std::vector<Placement> &placements, int64_t bound,
              const Options &options)
      : components(components), placements(placements),
        step(arenaStep(components)), proven(bound),
        nodesLeft(options.nodeLimit), searches(components.size()),
        deadline(deadlineOf(options)) {}

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
  /// most of what can be gained is gained cheaply, and a size that is out of
  /// reach does not spend what would have met the next one.
  void bringDownTo(int64_t goal, int64_t allowance) {
    int64_t end = nodesLeft - std::min(nodesLeft, allowance);
    for (int64_t share = kFirstShare; nodesLeft > end; share = twice(share)) {
      int64_t least = std::max(goal, proven) / step * step;
      if (arena() <= least)
        return;
      int64_t unmet = least - step, capacity = least;
      while (arena() > least && nodesLeft > end) {
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
    if (deadline && std::chrono::steady_clock::now() >= *deadline)
      nodesLeft = 0;
    return fits;
  }

  const std::vector<Component> &components;
  std::vector<Placement> &placements;
  const int64_t step;
  /// No arena is smaller.
  int64_t proven;
  int64_t nodesLeft;
  /// By component, made when one is needed.
  std::vector<std::optional<SkylineSearch>> searches;
  std::optional<std::chrono::steady_clock::time_point> deadline;
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

  auto goodEnough = static_cast<int64_t>(
      std::floor(static_cast<double>(bound) * options.goodEnough));
  goodEnough = std::max(goodEnough, bound);

  // About half a second of looking at placed buffers.
  int64_t work = 250'000'000;
  std::vector<Placement> placements;
  int64_t arena = bound;
  for (const Component &component : components) {
    // A component need not be smaller than the largest one.
    placements.push_back(placeByPortfolio(component, arena, goodEnough,
                                          options.bytesPerNode, work));
    arena = std::max(arena, placements.back().arenaBytes);
  }

  ArenaSearch search(components, placements, bound, options);
  // The capacity is worth most of the nodes.
  if (options.capacity && arena > *options.capacity)
    search.attempt(std::max(*options.capacity, bound),
                   options.nodeLimit - options.nodeLimit / 4);
  int64_t allowance = options.nodeLimit;
  if (options.bytesPerNode > 0)
    allowance =
        std::min(allowance, kLeastNodes + (search.arena() - goodEnough) /
                                              options.bytesPerNode);
  // Where the capacity is met, nobody asks for less.
  if (!options.capacity || search.arena() > *options.capacity)
    search.bringDownTo(goodEnough, allowance);

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
