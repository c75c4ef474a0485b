//===- PagePool.cpp - The pages of a cache that texts hold ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagePool.h"

#include <algorithm>

using namespace optrt;

PagePool::PagePool(const CacheExtents &cache)
    : holders(cache.pages), places(cache.pages) {
  if (cache.pages == 0)
    return;
  slotsOfGroup = cache.slotsOfPool;
  pagesOfGroup = cache.poolOf(0).count;
  for (int64_t slot = 0; slot < cache.slots; slot += slotsOfGroup) {
    const PageRange pool = cache.poolOf(slot);
    std::vector<int32_t> &free = groups.emplace_back().free;
    for (int64_t page = pool.first + pool.count; page-- > pool.first;)
      free.push_back(static_cast<int32_t>(page));
  }
}

int32_t PagePool::take(int64_t group) {
  Group &from = groups[group];
  const int32_t page = from.free.back();
  from.free.pop_back();
  --from.promised;
  holders[page] = 1;
  return page;
}

bool PagePool::drop(int32_t page) {
  if (--holders[page] > 0)
    return false;
  Group &group = groups[page / pagesOfGroup];
  group.free.push_back(page);
  if (places[page])
    group.prefixes.erase(*places[page]);
  places[page].reset();
  return true;
}

int32_t PagePool::findPrefix(int64_t group, int32_t before,
                             std::span<const int32_t> tokens) const {
  const Prefixes &prefixes = groups[group].prefixes;
  const auto found =
      prefixes.find({before, std::vector(tokens.begin(), tokens.end())});
  return found == prefixes.end() ? -1 : found->second;
}

void PagePool::addPrefix(int64_t group, int32_t before,
                         std::span<const int32_t> tokens, int32_t page) {
  const auto [place, isNew] = groups[group].prefixes.try_emplace(
      {before, std::vector(tokens.begin(), tokens.end())}, page);
  if (isNew)
    places[page] = place;
}

PageCounts PagePool::counts() const {
  PageCounts counts;
  counts.held = std::ranges::count_if(holders, [](int64_t n) { return n > 0; });
  counts.free = std::ssize(holders) - counts.held;
  counts.shared =
      std::ranges::count_if(holders, [](int64_t n) { return n > 1; });
  return counts;
}
