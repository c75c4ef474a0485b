//===- Occupied.h - Bytes taken over stretches of time ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A segment tree over sections. What is placed covers some nodes as a whole;
// the offsets taken there, and those taken anywhere below a node, are sets of
// stretches without overlap. Buffers that lie on each other are one stretch, so
// the sets stay short however many buffers there are.
//
//   sections   0   1   2   3      a covers the left half, b the right half's
//   offset 0  [  a  ] [b] [ ]     first; below the right half 0-4 is taken.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_MEMORYPLANNING_OCCUPIED_H
#define OPTIMUS_LIB_MEMORYPLANNING_OCCUPIED_H

#include "Problem.h"

namespace optimus_planning {

/// Offsets [offset, end).
struct Stretch {
  int64_t offset;
  int64_t end;
};

class Occupied {
public:
  explicit Occupied(int32_t numSections);

  /// Takes a stretch over sections; returns the looks spent on it.
  int64_t insert(SectionSpan sections, const Stretch &stretch);

  /// Where a search for gaps ended, and the looks spent on it.
  struct Passed {
    int64_t offset;
    int64_t looks;
  };

  /// Feeds the gaps that hold `size` bytes in all of these spans to `visit`, by
  /// rising offset, until it returns true: the aligned offset of such bytes,
  /// and how many more the gap has behind them. Returns the aligned offset
  /// behind all that was passed. Looks are lists, stretches before the gap
  /// taken, and one behind it. Stretches too near to each other for a gap are
  /// passed list by list.
  template <typename Visit>
  Passed visitGaps(std::span<const SectionSpan> spans, int64_t size,
                   int64_t alignment, Visit visit) {
    collect(spans);
    int64_t looks = lists.size(), top = 0, begin = 0;
    auto pass = [&](List &list) {
      ++looks;
      const int64_t end = (list.next++)->end;
      if (end <= top)
        return false;
      top = end;
      begin = alignUp(top, alignment);
      return true;
    };
    while (true) {
      for (bool moved = true; moved;) {
        moved = false;
        for (List &list : lists)
          while (list.next != list.end && list.next->offset < begin + size)
            moved |= pass(list);
      }
      List *nearest = nullptr;
      for (List &list : lists)
        if (list.next != list.end &&
            (!nearest || list.next->offset < nearest->next->offset))
          nearest = &list;
      if (!nearest)
        return {begin, looks};
      if (visit(begin, nearest->next->offset - begin - size))
        return {begin, looks + 1};
      pass(*nearest);
    }
  }

private:
  /// By rising offset, without overlap and none touching the next.
  using Stretches = std::vector<Stretch>;
  struct Node {
    /// Of buffers over all of it, and of buffers in some of its sections.
    Stretches covering, within;
    /// The last insertion or scan that came here.
    uint32_t visit = 0;
  };
  struct List {
    const Stretch *next, *end;
  };

  static int64_t add(Stretches &stretches, const Stretch &added);
  /// Calls `canonical` with the nodes that make up a span, and `above` with the
  /// nodes above them, once each.
  template <typename Canonical, typename Above>
  void walk(SectionSpan sections, Canonical canonical, Above above);
  /// Fills `lists` with what is taken in spans.
  void collect(std::span<const SectionSpan> spans);

  size_t numLeaves = 1;
  std::vector<Node> nodes;
  uint32_t visits = 0;
  std::vector<List> lists;
};

} // namespace optimus_planning

#endif // OPTIMUS_LIB_MEMORYPLANNING_OCCUPIED_H
