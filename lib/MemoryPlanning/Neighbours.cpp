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

Neighbours::Neighbours(const Component &component, int64_t maxPairs) {
  // Buffers come by rising first section: a sweep over the live ones.
  const std::vector<Buffer> &buffers = component.buffers;
  std::vector<int32_t> live;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int32_t i = 0; i < static_cast<int32_t>(buffers.size()); ++i) {
    std::erase_if(live, [&](int32_t other) {
      return buffers[other].last <= buffers[i].first;
    });
    if (static_cast<int64_t>(pairs.size() + live.size()) > maxPairs)
      return;
    for (int32_t other : live)
      if (component.meet(buffers[other], buffers[i]))
        pairs.emplace_back(other, i);
    live.push_back(i);
  }
  begins.assign(buffers.size() + 1, 0);
  for (auto [a, b] : pairs) {
    ++begins[a + 1];
    ++begins[b + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  members.resize(begins.back());
  std::vector<int64_t> next(begins.begin(), begins.end() - 1);
  for (auto [a, b] : pairs) {
    members[next[a]++] = b;
    members[next[b]++] = a;
  }
}
