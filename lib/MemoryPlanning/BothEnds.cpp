//===- BothEnds.cpp - Long lives at the two ends of an arena ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BothEnds.h"

#include "Occupied.h"
#include "PeakFirst.h"

#include <algorithm>
#include <tuple>

using namespace optimus_planning;

/// A life of this part of all sections is a long one: of a training step of 96
/// layers, one of three layers or more.
static constexpr int32_t kLongPart = 64;
/// Sections with this part of the lower bound count as full.
static constexpr double kFull = 0.95;
/// The share of a miss that counts after each round with room.
static constexpr double kKept = 0.9;

namespace {
class BothEnds {
public:
  BothEnds(const Component &component, int64_t capacity)
      : component(component), capacity(capacity),
        ends(component.buffers.size(), End::None),
        offsets(component.buffers.size(), Buffer::kFree) {}

  /// Whether there was room for all that is alive for long or at full times.
  bool run(int rounds);
  /// By buffer; kFree for the others.
  const std::vector<int64_t> &getOffsets() const { return offsets; }

private:
  enum class End : uint8_t { None, Lower, Upper };

  const Buffer &bufferOf(int32_t index) const {
    return component.buffers[index];
  }
  int32_t lengthOf(int32_t index) const {
    return bufferOf(index).last - bufferOf(index).first;
  }
  void chooseEnds();
  /// Lists the buffers with an end, the longest lives first, and of the others
  /// those alive in a full section, the largest first.
  void sort();
  /// Takes a place for a buffer; false where there is none within the capacity.
  bool put(int32_t index, Occupied &occupied);
  /// The same for all of a list, in its order; where some find none, again and
  /// again with these further in front.
  bool putAll(std::vector<int32_t> &list, int rounds, Occupied &occupied);

  const Component &component;
  const int64_t capacity;
  std::vector<End> ends;
  std::vector<int32_t> stacked, full;
  std::vector<int64_t> offsets;
};
} // namespace

void BothEnds::chooseEnds() {
  // What is alive at an end, the longest first.
  std::vector<int32_t> stacks[2];
  for (int32_t i = 0; i < static_cast<int32_t>(ends.size()); ++i) {
    const Buffer &buffer = bufferOf(i);
    if (lengthOf(i) < component.numSections / kLongPart)
      continue;
    // How much longer it lives than what it would lie on; then how much that
    // outlives it.
    std::pair<int32_t, int32_t> costs[2];
    for (int end : {0, 1}) {
      std::vector<int32_t> &stack = stacks[end];
      while (!stack.empty() && bufferOf(stack.back()).last <= buffer.first)
        stack.pop_back();
      const int32_t last = stack.empty() ? 2 * component.numSections
                                         : bufferOf(stack.back()).last;
      costs[end] = {std::max(0, buffer.last - last),
                    std::max(0, last - buffer.last)};
    }
    const int chosen = costs[1] < costs[0];
    ends[i] = chosen == 0 ? End::Lower : End::Upper;
    std::vector<int32_t> &stack = stacks[chosen];
    stack.insert(std::ranges::upper_bound(
                     stack, buffer.last, std::greater(),
                     [&](int32_t other) { return bufferOf(other).last; }),
                 i);
  }
}

void BothEnds::sort() {
  const std::vector<int64_t> loads = sectionLoads(component);
  const double least = kFull * static_cast<double>(component.lowerBound);
  // By section, how many before it are full.
  std::vector<int32_t> numFull{0};
  for (int64_t load : loads)
    numFull.push_back(numFull.back() + (static_cast<double>(load) > least));
  for (int32_t i = 0; i < static_cast<int32_t>(ends.size()); ++i)
    if (ends[i] != End::None)
      stacked.push_back(i);
    else if (numFull[bufferOf(i).last] > numFull[bufferOf(i).first])
      full.push_back(i);
  std::ranges::stable_sort(stacked, std::greater(),
                           [&](int32_t i) { return lengthOf(i); });
  std::ranges::stable_sort(full, std::greater(), [&](int32_t i) {
    return std::pair(bufferOf(i).size, lengthOf(i));
  });
}

bool BothEnds::put(int32_t index, Occupied &occupied) {
  const Buffer &buffer = bufferOf(index);
  const int64_t highest = (capacity - buffer.size) & ~(buffer.alignment - 1);
  const bool isUpper = ends[index] == End::Upper;
  std::optional<int64_t> chosen;
  const Occupied::Passed passed = occupied.visitGaps(
      component.spansOf(buffer), buffer.size, buffer.alignment,
      [&](int64_t begin, int64_t slack) {
        if (begin > highest)
          return true;
        chosen = isUpper ? std::min((begin + slack) & ~(buffer.alignment - 1),
                                    highest)
                         : begin;
        return !isUpper;
      });
  // Above all that is taken there.
  if (passed.offset <= highest && (isUpper || !chosen))
    chosen = isUpper ? highest : passed.offset;
  // Without room it lies above the others, as long as these are tried.
  offsets[index] = chosen.value_or(passed.offset);
  for (SectionSpan span : component.spansOf(buffer))
    occupied.insert(span, {offsets[index], offsets[index] + buffer.size});
  return chosen.has_value();
}

bool BothEnds::putAll(std::vector<int32_t> &list, int rounds,
                      Occupied &occupied) {
  const Occupied before = occupied;
  // By buffer, in how many rounds it had no room; those long ago count less.
  std::vector<double> misses(ends.size(), 0);
  for (int round = 0; round < rounds; ++round) {
    occupied = before;
    bool fits = true;
    for (int32_t index : list)
      if (put(index, occupied)) {
        misses[index] *= kKept;
      } else {
        ++misses[index];
        fits = false;
      }
    if (fits)
      return true;
    std::ranges::stable_sort(list, std::greater(), [&](int32_t i) {
      return std::tuple(misses[i], bufferOf(i).size, lengthOf(i));
    });
  }
  return false;
}

bool BothEnds::run(int rounds) {
  chooseEnds();
  sort();
  Occupied occupied(component.numSections);
  return putAll(stacked, /*rounds=*/1, occupied) &&
         putAll(full, rounds, occupied);
}

std::optional<Placement>
optimus_planning::placeFromBothEnds(std::span<const LiveRange> ranges,
                                    const Component &component,
                                    int64_t capacity, int rounds) {
  if (std::ranges::any_of(component.buffers, &Buffer::isFixed))
    return std::nullopt;
  BothEnds ends(component, capacity);
  if (!ends.run(rounds))
    return std::nullopt;
  return placeAround(ranges, component, ends.getOffsets(), capacity + 1,
                     "both ends");
}
