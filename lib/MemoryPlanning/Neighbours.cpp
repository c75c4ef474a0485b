//===- Neighbours.cpp - Buffers alive at the same time ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Neighbours.h"

#include <numeric>

using namespace optimus_planning;

namespace {
/// A buffer that is alive.
struct Alive {
  int32_t index, last;
  bool hasGaps;
};
} // namespace

/// Calls `visit` with each buffer and those that are alive when it begins, as
/// long as it returns true; returns whether it did for all.
template <typename Visit>
static bool sweep(const Component &component, Visit visit) {
  // Buffers come by rising first section.
  std::vector<Alive> live;
  for (int32_t i = 0; i < static_cast<int32_t>(component.buffers.size()); ++i) {
    const Buffer &buffer = component.buffers[i];
    std::erase_if(
        live, [&](const Alive &other) { return other.last <= buffer.first; });
    if (!visit(i, live))
      return false;
    live.push_back({i, buffer.last, buffer.hasGaps()});
  }
  return true;
}

Neighbours::Neighbours(const Component &component, int64_t maxPairs) {
  const std::vector<Buffer> &buffers = component.buffers;
  auto meets = [&](int32_t i, const Alive &other) {
    return (!other.hasGaps && !buffers[i].hasGaps()) ||
           component.meet(buffers[other.index], buffers[i]);
  };
  std::vector<int64_t> counts(buffers.size() + 1);
  int64_t numPairs = 0;
  const bool areFew =
      sweep(component, [&](int32_t i, const std::vector<Alive> &live) {
        if (numPairs + static_cast<int64_t>(live.size()) > maxPairs)
          return false;
        for (const Alive &other : live)
          if (meets(i, other)) {
            ++counts[other.index + 1];
            ++counts[i + 1];
            ++numPairs;
          }
        return true;
      });
  if (!areFew)
    return;
  begins = std::move(counts);
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  members.resize(begins.back());
  std::vector<int64_t> next(begins.begin(), begins.end() - 1);
  sweep(component, [&](int32_t i, const std::vector<Alive> &live) {
    for (const Alive &other : live)
      if (meets(i, other)) {
        members[next[other.index]++] = i;
        members[next[i]++] = other.index;
      }
    return true;
  });
}
