//===- SkylineSearch.cpp - Branch and bound over skylines ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers are placed by rising offset, each on top of the skyline: the highest
// buffer placed so far in any of its sections. If the component fits at all,
// the placement with the smallest sum of offsets is among those built so, and
// the search keeps to what such a placement can look like:
//
//  * Offsets rise along the sequence; equal ones follow a fixed rank. A buffer
//    that was passed over can only come back once something else has been put
//    under it.
//  * No buffer is placed at an offset at or above the end some other remaining
//    buffer would have if it came now: that one would fit below.
//
// A node is cut when in one section the remaining buffers cannot fit between
// their earliest offsets and the capacity: taken as jobs on one machine, with
// the earliest offsets as release times, for some release time the jobs not
// released before do not end in time. When no remaining buffer crosses a
// boundary of sections, both sides are searched apart.
//
//===----------------------------------------------------------------------===//

#include "SkylineSearch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

using namespace optimus_planning;

namespace {

constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max() / 4;

/// A search under one ranking of the buffers.
class Skyline {
public:
  Skyline(const Component &component, int64_t capacity,
          std::vector<int32_t> rank, int64_t nodeLimit,
          const SearchBudget &budget)
      : component(component), capacity(capacity), rank(std::move(rank)),
        nodeLimit(nodeLimit), deadline(budget.deadline),
        height(component.numSections, 0), load(component.numSections, 0),
        lowestEnd(component.numSections), secondEnd(component.numSections),
        lowestOwner(component.numSections),
        offsets(component.buffers.size(), 0),
        natural(component.buffers.size(), 0),
        release(component.buffers.size(), 0) {}

  SearchResult run() {
    std::vector<int32_t> all(component.buffers.size());
    std::iota(all.begin(), all.end(), 0);
    return solve(all, 0, -1);
  }

  int64_t nodes() const { return numNodes; }
  const std::vector<int64_t> &placement() const { return offsets; }

private:
  /// Places `remaining` (by rising first section), which hang together in time,
  /// after a buffer of rank `lastRank` at `lastOffset`.
  SearchResult solve(const std::vector<int32_t> &remaining, int64_t lastOffset,
                     int32_t lastRank);

  /// Computes natural and release offsets of the remaining buffers. Returns
  /// false when they cannot fit.
  bool bound(const std::vector<int32_t> &remaining, int64_t lastOffset,
             int32_t lastRank);

  /// Solves the parts that `remaining` without `placed` falls into.
  SearchResult solveParts(const std::vector<int32_t> &remaining,
                          int32_t placed);

  bool mayComeNow(int32_t i, int64_t lastOffset, int32_t lastRank) const {
    return natural[i] > lastOffset ||
           (natural[i] == lastOffset && rank[i] > lastRank);
  }

  bool spent() {
    if (numNodes >= nodeLimit)
      return true;
    return deadline && numNodes % 256 < 2 &&
           std::chrono::steady_clock::now() >= *deadline;
  }

  const Component &component;
  const int64_t capacity;
  const std::vector<int32_t> rank;
  const int64_t nodeLimit;
  const std::optional<std::chrono::steady_clock::time_point> deadline;
  int64_t numNodes = 0;

  std::vector<int64_t> height;
  // Scratch of bound(), by section.
  std::vector<int64_t> load;
  std::vector<int64_t> lowestEnd;
  std::vector<int64_t> secondEnd;
  std::vector<int32_t> lowestOwner;
  std::vector<int32_t> byRelease;
  // By buffer: where it is; where it would come now; and the least offset it
  // can still get.
  std::vector<int64_t> offsets;
  std::vector<int64_t> natural;
  std::vector<int64_t> release;
};

} // namespace

bool Skyline::bound(const std::vector<int32_t> &remaining, int64_t lastOffset,
                    int32_t lastRank) {
  const std::vector<Buffer> &buffers = component.buffers;
  int32_t begin = buffers[remaining.front()].first;
  int32_t end = begin;
  bool anyBlocked = false;
  int64_t steps = 0;
  for (int32_t i : remaining) {
    const Buffer &buffer = buffers[i];
    int64_t top = 0;
    for (int32_t s = buffer.first; s < buffer.last; ++s)
      top = std::max(top, height[s]);
    steps += buffer.last - buffer.first;
    end = std::max(end, buffer.last);
    natural[i] = alignUp(top, buffer.alignment);
    if (natural[i] + buffer.size > capacity)
      return false;
    release[i] = natural[i];
    if (!mayComeNow(i, lastOffset, lastRank)) {
      // It would fit below the last one.
      if (natural[i] + buffer.size <= lastOffset)
        return false;
      anyBlocked = true;
      release[i] = alignUp(lastOffset, buffer.alignment);
    }
  }
  numNodes += steps >> 12;

  if (anyBlocked) {
    // Something must come under a blocked buffer first.
    std::fill(lowestEnd.begin() + begin, lowestEnd.begin() + end, kInfinity);
    std::fill(secondEnd.begin() + begin, secondEnd.begin() + end, kInfinity);
    for (int32_t i : remaining) {
      int64_t top = release[i] + buffers[i].size;
      for (int32_t s = buffers[i].first; s < buffers[i].last; ++s) {
        if (top < lowestEnd[s]) {
          secondEnd[s] = lowestEnd[s];
          lowestEnd[s] = top;
          lowestOwner[s] = i;
        } else if (top < secondEnd[s]) {
          secondEnd[s] = top;
        }
      }
    }
    for (int32_t i : remaining) {
      if (mayComeNow(i, lastOffset, lastRank))
        continue;
      int64_t support = kInfinity;
      for (int32_t s = buffers[i].first; s < buffers[i].last; ++s)
        support = std::min(support,
                           lowestOwner[s] == i ? secondEnd[s] : lowestEnd[s]);
      if (support == kInfinity)
        return false;
      release[i] = std::max(release[i], alignUp(support, buffers[i].alignment));
    }
  }

  byRelease.assign(remaining.begin(), remaining.end());
  std::sort(byRelease.begin(), byRelease.end(),
            [&](int32_t a, int32_t b) { return release[a] > release[b]; });
  std::fill(load.begin() + begin, load.begin() + end, 0);
  for (int32_t i : byRelease) {
    int64_t room = capacity - release[i];
    for (int32_t s = buffers[i].first; s < buffers[i].last; ++s) {
      load[s] += buffers[i].size;
      if (load[s] > room)
        return false;
    }
  }
  return true;
}

SearchResult Skyline::solve(const std::vector<int32_t> &remaining,
                            int64_t lastOffset, int32_t lastRank) {
  if (!bound(remaining, lastOffset, lastRank))
    return SearchResult::DoesNotFit;

  struct Candidate {
    int64_t offset;
    int32_t rank;
    int32_t index;
  };
  int64_t earliestEnd = kInfinity;
  for (int32_t i : remaining)
    earliestEnd = std::min(earliestEnd, natural[i] + component.buffers[i].size);
  std::vector<Candidate> candidates;
  for (int32_t i : remaining)
    if (natural[i] < earliestEnd && mayComeNow(i, lastOffset, lastRank))
      candidates.push_back({natural[i], rank[i], i});
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate &a, const Candidate &b) {
              return a.offset != b.offset ? a.offset < b.offset
                                          : a.rank < b.rank;
            });

  std::vector<int64_t> savedHeight;
  for (const Candidate &candidate : candidates) {
    if (spent())
      return SearchResult::GaveUp;
    ++numNodes;
    const Buffer &buffer = component.buffers[candidate.index];
    auto from = height.begin() + buffer.first;
    auto to = height.begin() + buffer.last;
    savedHeight.assign(from, to);
    offsets[candidate.index] = candidate.offset;
    std::fill(from, to, candidate.offset + buffer.size);
    SearchResult result = solveParts(remaining, candidate.index);
    std::copy(savedHeight.begin(), savedHeight.end(), from);
    if (result != SearchResult::DoesNotFit)
      return result;
  }
  return SearchResult::DoesNotFit;
}

SearchResult Skyline::solveParts(const std::vector<int32_t> &remaining,
                                 int32_t placed) {
  const std::vector<Buffer> &buffers = component.buffers;
  std::vector<std::vector<int32_t>> parts;
  int32_t reach = -1;
  for (int32_t i : remaining) {
    if (i == placed)
      continue;
    if (buffers[i].first >= reach)
      parts.emplace_back();
    parts.back().push_back(i);
    reach = std::max(reach, buffers[i].last);
  }
  // A dead end in a small part is found soonest.
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const auto &a, const auto &b) { return a.size() < b.size(); });
  // Cut before descending into any of them.
  if (parts.size() > 1)
    for (const std::vector<int32_t> &part : parts)
      if (!bound(part, offsets[placed], rank[placed]))
        return SearchResult::DoesNotFit;
  for (const std::vector<int32_t> &part : parts) {
    SearchResult result = solve(part, offsets[placed], rank[placed]);
    if (result != SearchResult::Fits)
      return result;
  }
  return SearchResult::Fits;
}

SearchResult optimus_planning::searchPlacement(const Component &component,
                                               int64_t capacity,
                                               SearchBudget &budget,
                                               std::vector<int64_t> &offsets) {
  const std::vector<Buffer> &buffers = component.buffers;
  if (capacity < component.lowerBound)
    return SearchResult::DoesNotFit;
  // The search recurses once per buffer.
  constexpr size_t kMaxBuffers = 4096;
  if (buffers.size() > kMaxBuffers) {
    budget.nodes = 0;
    return SearchResult::GaveUp;
  }

  std::vector<int64_t> loads = sectionLoads(component);
  struct Keys {
    double length, size, area, pressure;
  };
  std::vector<Keys> keys;
  for (const Buffer &buffer : buffers) {
    double length = buffer.last - buffer.first;
    double size = static_cast<double>(buffer.size);
    keys.push_back(
        {length, size, length * size,
         static_cast<double>(*std::max_element(loads.begin() + buffer.first,
                                               loads.begin() + buffer.last))});
  }
  using Key = double Keys::*;
  const std::vector<Key> rankings[] = {
      {&Keys::length, &Keys::area, &Keys::pressure},
      {&Keys::pressure, &Keys::area, &Keys::length},
      {&Keys::pressure, &Keys::length, &Keys::area},
      {&Keys::area, &Keys::length, &Keys::pressure},
      {&Keys::size, &Keys::length, &Keys::pressure},
  };

  // Run times vary wildly with the ranking: short runs with each, then ever
  // longer ones, every other time with the keys distorted by up to a factor of
  // kDistortion.
  constexpr double kDistortion = 1.5;
  std::minstd_rand random(1);
  int64_t runNodes = 2000;
  for (int64_t round = 0;; ++round) {
    for (const std::vector<Key> &ranking : rankings) {
      std::vector<std::array<double, 3>> values(buffers.size());
      for (size_t i = 0; i < buffers.size(); ++i)
        for (size_t k = 0; k < ranking.size(); ++k) {
          double share = static_cast<double>(random() - random.min()) /
                         static_cast<double>(random.max() - random.min());
          double factor = round % 2 == 0 ? 1 : 1 + share * (kDistortion - 1);
          values[i][k] = keys[i].*ranking[k] * factor;
        }
      std::vector<int32_t> order(buffers.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return values[a] > values[b];
      });
      std::vector<int32_t> rank(buffers.size());
      for (size_t i = 0; i < order.size(); ++i)
        rank[order[i]] = static_cast<int32_t>(i);
      Skyline skyline(component, capacity, std::move(rank),
                      std::min(runNodes, budget.nodes), budget);
      SearchResult result = skyline.run();
      budget.nodes -=
          std::min(budget.nodes, std::max<int64_t>(skyline.nodes(), 1));
      if (result == SearchResult::Fits)
        offsets = skyline.placement();
      if (result != SearchResult::GaveUp)
        return result;
      if (budget.nodes <= 0 ||
          (budget.deadline &&
           std::chrono::steady_clock::now() >= *budget.deadline))
        return SearchResult::GaveUp;
    }
    runNodes *= round % 2 + 1;
  }
}
