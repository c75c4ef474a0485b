//===- OccupiedTest.cpp - Bytes taken over stretches of time ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryPlanning/Occupied.h"

#include "RandomRanges.h"

#include <gtest/gtest.h>

using namespace optimus_planning;

namespace {

constexpr int32_t kSections = 37;
constexpr int64_t kBytes = 60;

/// Which bytes are taken in each section, one by one.
using Taken = std::vector<std::vector<bool>>;

std::vector<bool> takenIn(const Taken &taken,
                          std::span<const SectionSpan> spans) {
  std::vector<bool> result(kBytes);
  for (SectionSpan span : spans)
    for (int32_t section = span.first; section < span.last; ++section)
      for (int64_t byte = 0; byte < kBytes; ++byte)
        result[byte] = result[byte] || taken[section][byte];
  return result;
}

SectionSpan pickSpan(std::mt19937_64 &random, int32_t first, int32_t last) {
  auto begin = static_cast<int32_t>(pick(random, first, last - 1));
  return {begin, static_cast<int32_t>(pick(random, begin + 1, last))};
}

TEST(Occupied, HasWhatWasTakenInSomeSection) {
  std::mt19937_64 random(7);
  Occupied occupied(kSections);
  Taken taken(kSections, std::vector<bool>(kBytes));
  for (int turn = 0; turn < 300; ++turn) {
    const SectionSpan parts[] = {pickSpan(random, 0, kSections / 2),
                                 pickSpan(random, kSections / 2, kSections)};
    std::span<const SectionSpan> spans(parts, pick(random, 1, 2));
    std::vector<bool> found(kBytes);
    int64_t last = 0;
    occupied.scan(spans, [&](const Stretch &stretch) {
      EXPECT_GE(stretch.offset, last);
      EXPECT_LT(stretch.offset, stretch.end);
      last = stretch.offset;
      std::fill(found.begin() + stretch.offset, found.begin() + stretch.end,
                true);
      return false;
    });
    ASSERT_EQ(found, takenIn(taken, spans)) << turn;
    if (turn % 3 != 0)
      continue;
    const int64_t offset = pick(random, 0, kBytes - 3);
    const Stretch stretch{offset, offset + pick(random, 1, 3)};
    const SectionSpan span = pickSpan(random, 0, kSections);
    occupied.insert(span, stretch);
    for (int32_t section = span.first; section < span.last; ++section)
      std::fill(taken[section].begin() + stretch.offset,
                taken[section].begin() + stretch.end, true);
  }
}

TEST(Occupied, JoinsWhatLiesOnEachOther) {
  Occupied occupied(64);
  constexpr int64_t kCount = 10'000;
  for (int64_t i = 0; i < kCount; ++i)
    occupied.insert({1, 64}, {i, i + 1});
  const SectionSpan late[] = {{40, 41}};
  EXPECT_LE(occupied.scan(late, [](const Stretch &) { return false; }), 20);
}

TEST(Occupied, StopsWhereTheVisitorDoes) {
  Occupied occupied(4);
  occupied.insert({0, 4}, {0, 1});
  occupied.insert({1, 2}, {2, 3});
  const SectionSpan all[] = {{0, 4}};
  int visits = 0;
  occupied.scan(all, [&](const Stretch &) { return ++visits == 1; });
  EXPECT_EQ(visits, 1);
}

} // namespace
