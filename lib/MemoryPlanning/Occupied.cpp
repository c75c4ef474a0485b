//===- Occupied.cpp - Bytes taken over stretches of time --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Occupied.h"

#include <algorithm>
#include <bit>

using namespace optimus_planning;

Occupied::Occupied(int32_t numSections)
    : numLeaves(std::bit_ceil(static_cast<size_t>(std::max(1, numSections)))),
      nodes(2 * numLeaves) {}

int64_t Occupied::add(Stretches &stretches, const Stretch &added) {
  auto first = std::lower_bound(
      stretches.begin(), stretches.end(), added.offset,
      [](const Stretch &each, int64_t offset) { return each.end < offset; });
  auto last = first;
  Stretch merged = added;
  for (; last != stretches.end() && last->offset <= added.end; ++last) {
    merged.offset = std::min(merged.offset, last->offset);
    merged.end = std::max(merged.end, last->end);
  }
  // Moving many takes as long as looking at a few.
  int64_t looks = 1 + (last - first) + (stretches.end() - last) / 16;
  if (first == last) {
    stretches.insert(first, merged);
  } else {
    *first = merged;
    stretches.erase(first + 1, last);
  }
  return looks;
}

template <typename Canonical, typename Above>
void Occupied::walk(SectionSpan sections, Canonical canonical, Above above) {
  auto take = [&](size_t node) {
    canonical(nodes[node]);
    for (node /= 2; node > 0 && nodes[node].visit != visits; node /= 2) {
      nodes[node].visit = visits;
      above(nodes[node]);
    }
  };
  size_t begin = numLeaves + sections.first, end = numLeaves + sections.last;
  for (; begin < end; begin /= 2, end /= 2) {
    if (begin % 2 == 1)
      take(begin++);
    if (end % 2 == 1)
      take(--end);
  }
}

int64_t Occupied::insert(SectionSpan sections, const Stretch &stretch) {
  ++visits;
  int64_t looks = 0;
  walk(
      sections,
      [&](Node &node) {
        looks += add(node.covering, stretch) + add(node.within, stretch);
      },
      [&](Node &node) { looks += add(node.within, stretch); });
  return looks;
}

void Occupied::collect(std::span<const SectionSpan> spans) {
  ++visits;
  lists.clear();
  auto append = [&](const Stretches &stretches) {
    if (!stretches.empty())
      lists.push_back({stretches.data(), stretches.data() + stretches.size()});
  };
  for (SectionSpan span : spans)
    walk(
        span, [&](Node &node) { append(node.within); },
        [&](Node &node) { append(node.covering); });
}
