//===- SkylineSearch.cpp - Search under many rankings ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SkylineSearch.h"

#include <algorithm>
#include <numeric>

using namespace optimus_planning;

/// The search recurses once per buffer.
static constexpr int64_t kMaxBuffers = 4096;

/// Each solves some of the benchmark instances within a few thousand nodes and
/// others not in millions; the first solve the most.
static constexpr Strategy kStrategies[] = {
    {{RankingKey::Load, RankingKey::Duration, RankingKey::Area}, true},
    {{RankingKey::Load, RankingKey::Sections, RankingKey::Area}, false},
    {{RankingKey::Load, RankingKey::Area, RankingKey::Duration}, false},
    {{RankingKey::Load, RankingKey::Duration, RankingKey::Area}, false},
    {{RankingKey::Duration, RankingKey::Area, RankingKey::Load}, false},
    {{RankingKey::Sections, RankingKey::Area, RankingKey::Load}, false},
};

Deadline optimus_planning::deadlineOf(const Options &options) {
  using Clock = std::chrono::steady_clock;
  if (!options.timeout)
    return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(*options.timeout));
}

int64_t optimus_planning::arenaStep(std::span<const Component> components) {
  int64_t sizes = 0, alignments = 0, maxAlignment = 1;
  for (const Component &component : components)
    for (const Buffer &buffer : component.buffers) {
      sizes = std::gcd(sizes, buffer.size);
      if (buffer.isFixed())
        sizes = std::gcd(sizes, buffer.fixedOffset);
      alignments = std::gcd(alignments, buffer.alignment);
      maxAlignment = std::max(maxAlignment, buffer.alignment);
    }
  return sizes % maxAlignment == 0 ? sizes : std::gcd(sizes, alignments);
}

/// Up to how many pairs of neighbours a component is searched.
static int64_t maxPairs(const Component &component) {
  auto count = static_cast<int64_t>(component.buffers.size());
  return count > kMaxBuffers ? -1 : count * count / 2;
}

SkylineSearch::SkylineSearch(const Component &component)
    : component(component), neighbours(component, maxPairs(component)),
      unit(arenaStep({&component, 1})) {}

SearchResult SkylineSearch::run(int64_t capacity, SearchBudget &budget,
                                std::vector<int64_t> &offsets) const {
  if (capacity < component.lowerBound)
    return SearchResult::DoesNotFit;
  if (!isPossible()) {
    budget.nodes = 0;
    return SearchResult::GaveUp;
  }

  // Run times vary wildly with the ranking: short runs with each, then ever
  // longer ones. Now and then with distorted keys: where all rankings fail,
  // something near to one of them may not.
  int64_t runNodes = 2000;
  for (uint32_t round = 0;; ++round) {
    bool distorted = round % 4 == 3;
    for (const Strategy &strategy : kStrategies) {
      Ranking ranking(component, strategy, distorted ? round : 0);
      SkylineAnswer answer =
          searchSkylines({component, neighbours, unit, capacity, ranking,
                          std::min(runNodes, budget.nodes), budget.deadline});
      budget.nodes -=
          std::min(budget.nodes, std::max<int64_t>(answer.nodes, 1));
      if (answer.result == SearchResult::Fits)
        offsets = std::move(answer.offsets);
      if (answer.result != SearchResult::GaveUp)
        return answer.result;
      if (budget.nodes <= 0 || budget.isLate())
        return SearchResult::GaveUp;
    }
    if (!distorted)
      runNodes *= 2;
  }
}
