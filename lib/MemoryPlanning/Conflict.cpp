//===- Conflict.cpp - Why buffers do not fit -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers are left out of a set that does not fit as long as the rest does not
// fit either. One that was once needed stays needed: had it been left out of
// the larger set, that would have fitted, and so does every subset of it. Hence
// one look at each buffer is enough.
//
//===----------------------------------------------------------------------===//

#include "Portfolio.h"
#include "SkylineSearch.h"

#include <algorithm>
#include <numeric>

using namespace optimus_planning;

namespace {

/// Looks for a conflict among the ranges.
class ConflictFinder {
public:
  ConflictFinder(std::span<const LiveRange> ranges, int64_t capacity,
                 const Options &options)
      : ranges(ranges), capacity(capacity), nodesLeft(options.nodeLimit),
        queryNodes(options.nodeLimit), deadline(deadlineOf(options)) {}

  std::optional<Conflict> find();

private:
  /// A conflict that the lower bound of a component shows.
  Conflict findBeyondBound(const Component &component);

  /// Drops members while the others still do not fit together, as far as nodes
  /// allow.
  Conflict reduce(std::vector<size_t> members);

  /// Whether the members fit.
  SearchResult query(std::span<const size_t> members);

  const std::span<const LiveRange> ranges;
  const int64_t capacity;
  int64_t nodesLeft;
  /// For one query.
  int64_t queryNodes;
  Deadline deadline;
};

} // namespace

Conflict ConflictFinder::findBeyondBound(const Component &component) {
  for (const Buffer &buffer : component.buffers)
    if (buffer.isFixed() && buffer.fixedOffset + buffer.size > capacity)
      return {{buffer.range}};
  // Of the buffers alive at the fullest time, which have more bytes than the
  // capacity.
  std::vector<int64_t> loads = sectionLoads(component);
  auto peak = std::max_element(loads.begin(), loads.end());
  auto section = static_cast<int32_t>(peak - loads.begin());
  std::vector<Buffer> alive;
  for (const Buffer &buffer : component.buffers)
    for (SectionSpan span : component.spansOf(buffer))
      if (span.first <= section && section < span.last)
        alive.push_back(buffer);
  // Whatever their alignments, they fit exactly when their padded sizes do: in
  // order of falling alignment they lie without gaps. Where some are fixed,
  // less may be too much, too.
  std::stable_sort(
      alive.begin(), alive.end(),
      [](const Buffer &a, const Buffer &b) { return a.size < b.size; });
  std::vector<size_t> members;
  bool anyFixed = false;
  int64_t sum = *peak;
  for (const Buffer &buffer : alive) {
    if (sum - buffer.size > capacity) {
      sum -= buffer.size;
      continue;
    }
    members.push_back(buffer.range);
    anyFixed |= buffer.isFixed();
  }
  if (anyFixed)
    return reduce(std::move(members));
  std::sort(members.begin(), members.end());
  return {std::move(members)};
}

SearchResult ConflictFinder::query(std::span<const size_t> members) {
  std::vector<LiveRange> subset;
  for (size_t member : members)
    subset.push_back(ranges[member]);
  SearchBudget budget{std::min(nodesLeft, queryNodes), deadline};
  const int64_t nodes = budget.nodes;
  SearchResult result = SearchResult::Fits;
  int64_t work = 20'000'000;
  for (const Component &component : splitInTime(subset)) {
    if (component.lowerBound > capacity)
      return SearchResult::DoesNotFit;
    if (placeByPortfolio(component, capacity, capacity, 0, work).arenaBytes <=
        capacity)
      continue;
    std::vector<int64_t> offsets;
    SearchResult part = SkylineSearch(component).run(capacity, budget, offsets);
    // A part that does not fit decides, whatever is unknown of the others.
    if (part != SearchResult::Fits)
      result = part;
    if (part == SearchResult::DoesNotFit)
      break;
  }
  nodesLeft -= nodes - budget.nodes;
  return result;
}

std::optional<Conflict> ConflictFinder::find() {
  std::vector<Component> components = splitInTime(ranges);
  if (components.empty())
    return std::nullopt;
  if (components.front().lowerBound > capacity)
    return findBeyondBound(components.front());
  for (const Component &component : components) {
    std::vector<size_t> own;
    for (const Buffer &buffer : component.buffers)
      own.push_back(buffer.range);
    if (query(own) == SearchResult::DoesNotFit)
      return reduce(std::move(own));
  }
  return std::nullopt;
}

Conflict ConflictFinder::reduce(std::vector<size_t> members) {
  // Without a buffer the proof is seldom much longer than with all of them.
  constexpr int64_t kLeastQueryNodes = 20'000;
  queryNodes = std::max(kLeastQueryNodes, nodesLeft / 16);

  // The small and short-lived ones go first, in bulk as long as that works.
  auto area = [&](size_t i) {
    return static_cast<double>(paddedSize(ranges[i])) * durationOf(ranges[i]);
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](size_t a, size_t b) { return area(a) < area(b); });
  Conflict conflict;
  for (size_t bulk = std::max<size_t>(members.size() / 2, 1);; bulk /= 2) {
    for (size_t begin = 0; begin < members.size();) {
      auto from = members.begin() + static_cast<ptrdiff_t>(begin);
      size_t count = std::min(bulk, members.size() - begin);
      std::vector<size_t> others(members.begin(), from);
      others.insert(others.end(), from + static_cast<ptrdiff_t>(count),
                    members.end());
      SearchResult result = query(others);
      if (result == SearchResult::DoesNotFit) {
        members = std::move(others);
        continue;
      }
      if (bulk == 1 && result == SearchResult::GaveUp)
        conflict.irreducible = false;
      begin += count;
    }
    if (bulk == 1)
      break;
  }
  std::sort(members.begin(), members.end());
  conflict.members = std::move(members);
  return conflict;
}

std::optional<Conflict>
optimus_planning::findConflict(std::span<const LiveRange> ranges,
                               int64_t capacity, const Options &options) {
  return ConflictFinder(ranges, capacity, options).find();
}
