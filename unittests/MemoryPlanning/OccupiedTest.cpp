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

struct Gap {
  int64_t begin;
  int64_t slack;

  bool operator==(const Gap &) const = default;
};

/// The gaps of `size` bytes, found byte by byte; then, as one without slack,
/// the offset behind all that is taken.
std::vector<Gap> findGaps(const std::vector<bool> &taken, int64_t size,
                          int64_t alignment) {
  std::vector<Gap> gaps;
  int64_t begin = 0;
  for (int64_t byte = 0; byte < kBytes; ++byte) {
    if (!taken[byte])
      continue;
    if (byte - begin >= size)
      gaps.push_back({begin, byte - begin - size});
    begin = alignUp(byte + 1, alignment);
  }
  gaps.push_back({begin, 0});
  return gaps;
}

TEST(Occupied, HasTheGapsOfAllSections) {
  std::mt19937_64 random(7);
  Occupied occupied(kSections);
  Taken taken(kSections, std::vector<bool>(kBytes));
  for (int turn = 0; turn < 900; ++turn) {
    const SectionSpan parts[] = {pickSpan(random, 0, kSections / 2),
                                 pickSpan(random, kSections / 2, kSections)};
    std::span<const SectionSpan> spans(parts, pick(random, 1, 2));
    const int64_t size = pick(random, 1, 9);
    const int64_t alignment = int64_t{1} << pick(random, 0, 3);
    std::vector<Gap> found;
    const int64_t end = occupied
                            .visitGaps(spans, size, alignment,
                                       [&](int64_t begin, int64_t slack) {
                                         found.push_back({begin, slack});
                                         return false;
                                       })
                            .offset;
    found.push_back({end, 0});
    ASSERT_EQ(found, findGaps(takenIn(taken, spans), size, alignment)) << turn;
    if (turn % 9 != 0)
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
  const auto [offset, looks] =
      occupied.visitGaps(late, 1, 1, [](int64_t, int64_t) { return false; });
  EXPECT_EQ(offset, kCount);
  EXPECT_LE(looks, 20);
}

TEST(Occupied, StopsWhereTheVisitorDoes) {
  Occupied occupied(4);
  for (int64_t offset : {0, 2, 4, 6})
    occupied.insert({0, 4}, {offset, offset + 1});
  const SectionSpan all[] = {{0, 4}};
  int visits = 0;
  const auto [offset, looks] = occupied.visitGaps(
      all, 1, 1, [&](int64_t, int64_t) { return ++visits == 2; });
  EXPECT_EQ(visits, 2);
  EXPECT_EQ(offset, 3);
  // The list, two stretches before the gap, and one behind it.
  EXPECT_EQ(looks, 4);
}

} // namespace
