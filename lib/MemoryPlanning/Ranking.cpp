//===- Ranking.cpp - In which order a search tries buffers ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranking.h"

#include <algorithm>
#include <random>

using namespace optimus_planning;

Ranking::Ranking(const Component &component, const Strategy &strategy,
                 uint32_t seed)
    : strategy(strategy) {
  std::vector<int64_t> loads = sectionLoads(component);
  std::minstd_rand random(seed);
  // A whole number, so that no compiler fuses the product with a sum and
  // ranks otherwise than another one.
  constexpr uint32_t kOne = 1024;
  auto nextFactor = [&] {
    return static_cast<double>(seed == 0 ? kOne : kOne + random() % (kOne / 2));
  };
  for (const Buffer &buffer : component.buffers) {
    auto valueOf = [&](RankingKey key) -> double {
      switch (key) {
      case RankingKey::Load:
        return static_cast<double>(*std::max_element(
            loads.begin() + buffer.first, loads.begin() + buffer.last));
      case RankingKey::Duration:
        return buffer.duration;
      case RankingKey::Sections:
        return buffer.last - buffer.first;
      case RankingKey::Area:
        return static_cast<double>(buffer.size) * buffer.duration;
      }
      return 0;
    };
    Row row;
    for (size_t k = 0; k < strategy.keys.size(); ++k) {
      double factor = nextFactor();
      row.keys[k] = valueOf(strategy.keys[k]) * factor;
      if (strategy.keys[k] == RankingKey::Load)
        row.loadFactor = factor;
    }
    rows.push_back(row);
  }
}

void Ranking::sort(std::vector<int32_t> &buffers,
                   std::span<const int64_t> loads) const {
  struct Entry {
    std::array<double, 3> keys;
    int32_t buffer;
  };
  std::vector<Entry> entries;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Row &row = rows[buffers[i]];
    entries.push_back({row.keys, buffers[i]});
    for (size_t k = 0; k < strategy.keys.size() && !loads.empty(); ++k)
      if (strategy.keys[k] == RankingKey::Load)
        entries.back().keys[k] = static_cast<double>(loads[i]) * row.loadFactor;
  }
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry &a, const Entry &b) { return a.keys > b.keys; });
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i] = entries[i].buffer;
}
