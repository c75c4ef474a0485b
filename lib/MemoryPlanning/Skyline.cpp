//===- Skyline.cpp - Branch and bound over skylines -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Buffers with fixed offsets lie there from the start. The others are placed by
// rising offset, each at its natural offset: the lowest place above all those
// placed so far that are alive with it, clear of the fixed ones. If the
// component fits at all, take the placement with the smallest sum of offsets.
// None of its buffers can be moved down, so each lies at its natural offset
// when they are placed by rising offset, and the search finds it although it
// keeps to what such a placement can look like:
//
//  * Offsets rise along the sequence; equal ones follow a fixed rank. A buffer
//    that was passed over is blocked: in this order it can only come back once
//    something else has been put under it.
//  * No buffer is placed at an offset at or above the end that some other
//    remaining buffer would have if it came now: all later ones would lie as
//    high, so that one could be moved down.
//  * When no remaining buffer crosses a boundary of sections, both sides are
//    searched apart: they share no byte at any time. Each may be ranked anew,
//    if equal offsets are then allowed in any order for the first buffer. A
//    buffer crosses the boundaries in its gaps, too: it has one offset.
//
// A node is cut when in one section the remaining buffers cannot fit between
// their earliest offsets and the capacity: taken as jobs on one machine, with
// the earliest offsets as release times, for some release time the jobs not
// released before do not end in time.
//
//===----------------------------------------------------------------------===//

#include "Skyline.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace optimus_planning;

namespace {

/// Offsets and sizes are counted in units, in 32 bits where they fit. This
/// halves the memory touched by the loops over sections.
template <typename Unit>
class Skyline {
public:
  explicit Skyline(const SkylineQuery &query);

  SearchResult run();
  int64_t nodes() const { return numNodes; }
  Unit offsetOf(int32_t buffer) const { return offsets[buffer]; }

private:
  static constexpr Unit kInfinity = std::numeric_limits<Unit>::max() / 4;

  /// The last buffer placed, which the next ones come after.
  struct Last {
    Unit offset;
    int32_t rank;
  };
  struct Candidate {
    Unit offset;
    int32_t rank;
    int32_t buffer;
  };
  struct Change {
    int32_t buffer;
    Unit natural;
  };
  struct Extent {
    Unit begin;
    Unit end;
  };

  /// Places `remaining`, connected in time and not refused by mayFit().
  SearchResult solve(const std::vector<int32_t> &remaining, Last lastPlaced);

  /// Solves `rest`, which may have fallen apart in time.
  SearchResult solveRest(std::vector<int32_t> &rest, Last lastPlaced,
                         bool isOne);

  /// Solves a part that is ranked anew.
  SearchResult solveRanked(const std::vector<int32_t> &part, Last lastPlaced);

  /// Whether the bound lets them fit. Sorts them by falling release offset.
  bool mayFit(std::vector<int32_t> &remaining, Last lastPlaced);

  /// Raises the release offsets of blocked buffers: each needs another one
  /// under it, which ends no lower than the lowest end of those it meets.
  void releaseBlocked(const std::vector<int32_t> &remaining, int32_t begin,
                      int32_t end);

  std::vector<Candidate> candidates(const std::vector<int32_t> &remaining,
                                    Last lastPlaced) const;

  /// Places a buffer; returns whether others may have lost what linked them.
  bool place(int32_t buffer, Unit offset, std::vector<Change> &changes);
  void unplace(int32_t buffer, const std::vector<Change> &changes);

  Unit align(Unit offset, int32_t buffer) const {
    Unit mask = alignments[buffer] - 1;
    return (offset + mask) & ~mask;
  }

  /// The lowest place from `offset` on that is clear of the fixed buffers.
  Unit settle(Unit offset, int32_t buffer) const {
    Unit place = align(offset, buffer);
    if (obstacles.empty())
      return place;
    for (Extent obstacle : obstacles[buffer]) {
      if (place + sizes[buffer] <= obstacle.begin)
        break;
      if (obstacle.end > place)
        place = align(obstacle.end, buffer);
    }
    return place;
  }

  /// Notes what the fixed buffers occupy.
  void placeFixed();

  bool mayComeNow(int32_t buffer, Last lastPlaced) const {
    return natural[buffer] > lastPlaced.offset ||
           (natural[buffer] == lastPlaced.offset &&
            rank[buffer] > lastPlaced.rank);
  }

  bool spent() const {
    if (numNodes >= query.nodeLimit)
      return true;
    return query.deadline && numNodes % 256 < 2 &&
           std::chrono::steady_clock::now() >= *query.deadline;
  }

  const SkylineQuery &query;
  const Unit capacity;
  int64_t numNodes = 0;

  // By buffer.
  std::vector<int32_t> first, last;
  std::vector<std::span<const SectionSpan>> spans;
  std::vector<Unit> sizes, alignments;
  /// The fixed buffers that each meets, by rising offset; empty without any.
  std::vector<std::vector<Extent>> obstacles;
  std::vector<int32_t> rank;
  std::vector<char> isPlaced;
  /// Where it is; where it would come now; the least offset it can still get.
  std::vector<Unit> offsets, natural, release;

  // By section, scratch of mayFit().
  std::vector<Unit> load, lowestEnd;
  std::vector<int32_t> blocked;
  /// How many remaining buffers are alive on both sides of a boundary; boundary
  /// s lies before section s.
  std::vector<int32_t> crossing;
};

} // namespace

template <typename Unit>
Skyline<Unit>::Skyline(const SkylineQuery &query)
    : query(query), capacity(static_cast<Unit>(query.capacity / query.unit)),
      load(query.component.numSections), lowestEnd(query.component.numSections),
      crossing(query.component.numSections + 1, 0) {
  size_t numBuffers = query.component.buffers.size();
  for (const Buffer &buffer : query.component.buffers) {
    first.push_back(buffer.first);
    last.push_back(buffer.last);
    spans.push_back(query.component.spansOf(buffer));
    sizes.push_back(static_cast<Unit>(buffer.size / query.unit));
    // An alignment below the unit is met by every multiple of the unit.
    alignments.push_back(
        static_cast<Unit>(std::max<int64_t>(buffer.alignment / query.unit, 1)));
    if (!buffer.isFixed())
      for (int32_t s = buffer.first + 1; s < buffer.last; ++s)
        ++crossing[s];
  }
  offsets.assign(numBuffers, 0);
  natural.assign(numBuffers, 0);
  release.assign(numBuffers, 0);
  isPlaced.assign(numBuffers, 0);
  rank.resize(numBuffers);
  placeFixed();
}

template <typename Unit>
void Skyline<Unit>::placeFixed() {
  const std::vector<Buffer> &buffers = query.component.buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].isFixed())
      continue;
    obstacles.resize(buffers.size());
    isPlaced[i] = 1;
    offsets[i] = static_cast<Unit>(buffers[i].fixedOffset / query.unit);
    for (int32_t other : query.neighbours.of(static_cast<int32_t>(i)))
      obstacles[other].push_back({offsets[i], offsets[i] + sizes[i]});
  }
  for (size_t i = 0; i < obstacles.size(); ++i) {
    std::sort(obstacles[i].begin(), obstacles[i].end(),
              [](Extent a, Extent b) { return a.begin < b.begin; });
    natural[i] = settle(0, static_cast<int32_t>(i));
  }
}

template <typename Unit>
SearchResult Skyline<Unit>::run() {
  std::vector<int32_t> all;
  for (size_t i = 0; i < rank.size(); ++i)
    if (!isPlaced[i])
      all.push_back(static_cast<int32_t>(i));
  std::vector<int32_t> order = all;
  query.ranking.sort(order);
  for (size_t i = 0; i < order.size(); ++i)
    rank[order[i]] = static_cast<int32_t>(i);
  // What fixed buffers linked may have fallen apart.
  return solveRest(all, {0, -1}, obstacles.empty());
}

template <typename Unit>
bool Skyline<Unit>::mayFit(std::vector<int32_t> &remaining, Last lastPlaced) {
  int32_t begin = first[remaining.front()], end = begin;
  int64_t steps = 0;
  blocked.clear();
  for (int32_t i : remaining) {
    begin = std::min(begin, first[i]);
    end = std::max(end, last[i]);
    for (SectionSpan span : spans[i])
      steps += span.last - span.first;
    if (natural[i] + sizes[i] > capacity)
      return false;
    release[i] = natural[i];
    if (mayComeNow(i, lastPlaced))
      continue;
    // It would fit below the last one, or nothing is left to come under it.
    if (natural[i] + sizes[i] <= lastPlaced.offset || remaining.size() == 1)
      return false;
    release[i] = settle(lastPlaced.offset, i);
    blocked.push_back(i);
  }
  numNodes += steps >> 12;
  if (!blocked.empty())
    releaseBlocked(remaining, begin, end);

  // Sorting by insertion: they are nearly sorted from the node before.
  for (size_t k = 1; k < remaining.size(); ++k) {
    int32_t i = remaining[k];
    size_t at = k;
    for (; at > 0 && release[remaining[at - 1]] < release[i]; --at)
      remaining[at] = remaining[at - 1];
    remaining[at] = i;
  }
  std::fill(load.begin() + begin, load.begin() + end, 0);
  for (int32_t i : remaining) {
    Unit fullest = 0;
    for (SectionSpan span : spans[i])
      for (int32_t s = span.first; s < span.last; ++s) {
        load[s] += sizes[i];
        fullest = std::max(fullest, load[s]);
      }
    if (fullest > capacity - release[i])
      return false;
  }
  return true;
}

template <typename Unit>
void Skyline<Unit>::releaseBlocked(const std::vector<int32_t> &remaining,
                                   int32_t begin, int32_t end) {
  std::fill(lowestEnd.begin() + begin, lowestEnd.begin() + end, kInfinity);
  for (int32_t i : remaining) {
    Unit top = release[i] + sizes[i];
    for (SectionSpan span : spans[i])
      for (int32_t s = span.first; s < span.last; ++s)
        lowestEnd[s] = std::min(lowestEnd[s], top);
  }
  // A buffer's own end counts too, which only makes the bound weaker.
  for (int32_t i : blocked) {
    Unit support = kInfinity;
    for (SectionSpan span : spans[i])
      support =
          std::min(support, *std::min_element(lowestEnd.begin() + span.first,
                                              lowestEnd.begin() + span.last));
    release[i] = std::max(release[i], settle(support, i));
  }
}

template <typename Unit>
auto Skyline<Unit>::candidates(const std::vector<int32_t> &remaining,
                               Last lastPlaced) const
    -> std::vector<Candidate> {
  Unit lowest = kInfinity;
  for (int32_t i : remaining)
    lowest = std::min<Unit>(lowest, natural[i] + sizes[i]);
  std::vector<Candidate> found;
  for (int32_t i : remaining)
    if (natural[i] < lowest && mayComeNow(i, lastPlaced))
      found.push_back({natural[i], rank[i], i});
  std::sort(
      found.begin(), found.end(), [](const Candidate &a, const Candidate &b) {
        return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank;
      });
  return found;
}

template <typename Unit>
bool Skyline<Unit>::place(int32_t buffer, Unit offset,
                          std::vector<Change> &changes) {
  offsets[buffer] = offset;
  isPlaced[buffer] = 1;
  Unit top = offset + sizes[buffer];
  changes.clear();
  for (int32_t other : query.neighbours.of(buffer))
    if (!isPlaced[other] && natural[other] < top) {
      changes.push_back({other, natural[other]});
      natural[other] = settle(top, other);
    }
  bool wasLink = false;
  for (int32_t s = first[buffer] + 1; s < last[buffer]; ++s)
    wasLink |= --crossing[s] == 0;
  return wasLink;
}

template <typename Unit>
void Skyline<Unit>::unplace(int32_t buffer,
                            const std::vector<Change> &changes) {
  for (int32_t s = first[buffer] + 1; s < last[buffer]; ++s)
    ++crossing[s];
  for (auto [other, before] : changes)
    natural[other] = before;
  isPlaced[buffer] = 0;
}

template <typename Unit>
SearchResult Skyline<Unit>::solve(const std::vector<int32_t> &remaining,
                                  Last lastPlaced) {
  std::vector<Change> changes;
  std::vector<int32_t> rest;
  for (const Candidate &candidate : candidates(remaining, lastPlaced)) {
    if (spent())
      return SearchResult::GaveUp;
    ++numNodes;
    int32_t buffer = candidate.buffer;
    bool wasLink = place(buffer, candidate.offset, changes);
    rest.clear();
    for (int32_t i : remaining)
      if (i != buffer)
        rest.push_back(i);
    SearchResult result =
        solveRest(rest, {candidate.offset, candidate.rank}, !wasLink);
    // Also where it fits: another part may not, and its offset is kept.
    unplace(buffer, changes);
    if (result != SearchResult::DoesNotFit)
      return result;
  }
  return SearchResult::DoesNotFit;
}

template <typename Unit>
SearchResult Skyline<Unit>::solveRest(std::vector<int32_t> &rest,
                                      Last lastPlaced, bool isOne) {
  if (rest.empty())
    return SearchResult::Fits;
  std::vector<int32_t> cuts;
  if (!isOne) {
    int32_t begin = first[rest.front()], end = begin;
    for (int32_t i : rest) {
      begin = std::min(begin, first[i]);
      end = std::max(end, last[i]);
    }
    for (int32_t s = begin + 1; s < end; ++s)
      if (crossing[s] == 0)
        cuts.push_back(s);
  }
  if (cuts.empty())
    return mayFit(rest, lastPlaced) ? solve(rest, lastPlaced)
                                    : SearchResult::DoesNotFit;

  std::vector<std::vector<int32_t>> parts(cuts.size() + 1);
  for (int32_t i : rest)
    parts[std::upper_bound(cuts.begin(), cuts.end(), first[i]) - cuts.begin()]
        .push_back(i);
  std::erase_if(parts, [](const auto &part) { return part.empty(); });
  // A dead end in a small part is found soonest, one that the bound knows
  // before any descent.
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const auto &a, const auto &b) { return a.size() < b.size(); });
  for (std::vector<int32_t> &part : parts)
    if (!mayFit(part, lastPlaced))
      return SearchResult::DoesNotFit;
  for (const std::vector<int32_t> &part : parts) {
    SearchResult result = query.ranking.renewsLoads()
                              ? solveRanked(part, lastPlaced)
                              : solve(part, lastPlaced);
    if (result != SearchResult::Fits)
      return result;
  }
  return SearchResult::Fits;
}

template <typename Unit>
SearchResult Skyline<Unit>::solveRanked(const std::vector<int32_t> &part,
                                        Last lastPlaced) {
  std::vector<int32_t> order = part, ranksBefore;
  std::sort(order.begin(), order.end());
  // mayFit() has left their loads.
  std::vector<int64_t> loads;
  for (int32_t i : order) {
    loads.push_back(
        *std::max_element(load.begin() + first[i], load.begin() + last[i]));
    ranksBefore.push_back(rank[i]);
  }
  std::vector<int32_t> before = order;
  query.ranking.sort(order, loads);
  for (size_t i = 0; i < order.size(); ++i)
    rank[order[i]] = static_cast<int32_t>(i);
  SearchResult result = solve(part, {lastPlaced.offset, -1});
  for (size_t i = 0; i < before.size(); ++i)
    rank[before[i]] = ranksBefore[i];
  return result;
}

template <typename Unit>
static SkylineAnswer answer(const SkylineQuery &query) {
  Skyline<Unit> skyline(query);
  SkylineAnswer answer{skyline.run(), {}, 0};
  answer.nodes = skyline.nodes();
  if (answer.result == SearchResult::Fits)
    for (size_t i = 0; i < query.component.buffers.size(); ++i)
      answer.offsets.push_back(
          int64_t{skyline.offsetOf(static_cast<int32_t>(i))} * query.unit);
  return answer;
}

SkylineAnswer optimus_planning::searchSkylines(const SkylineQuery &query) {
  int64_t largest = query.capacity;
  for (const Buffer &buffer : query.component.buffers)
    largest = std::max({largest, buffer.size, buffer.alignment});
  // Sums of two of them and kInfinity must not overflow.
  bool fits32 = largest / query.unit < std::numeric_limits<int32_t>::max() / 8;
  return fits32 ? answer<int32_t>(query) : answer<int64_t>(query);
}
