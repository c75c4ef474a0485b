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

#include <algorithm>

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

  /// Feeds the stretches that are taken somewhere in these spans to `visit`, by
  /// rising offset, until it returns true; they may overlap. Returns how many
  /// were looked at.
  template <typename Visit>
  int64_t scan(std::span<const SectionSpan> spans, Visit visit) {
    collect(spans);
    int64_t looks = lists.size();
    auto isLater = [](const List &a, const List &b) {
      return a.next->offset > b.next->offset;
    };
    std::make_heap(lists.begin(), lists.end(), isLater);
    while (!lists.empty()) {
      ++looks;
      std::pop_heap(lists.begin(), lists.end(), isLater);
      List &list = lists.back();
      if (visit(*list.next))
        break;
      if (++list.next == list.end)
        lists.pop_back();
      else
        std::push_heap(lists.begin(), lists.end(), isLater);
    }
    return looks;
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
