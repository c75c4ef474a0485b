//===- PagePool.cpp - The pages of a cache that texts hold ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagePool.h"

#include <algorithm>
#include <utility>

using namespace optrt;

PagePool::PagePool(const CacheExtents &cache, int64_t hostPages)
    : holders(cache.pages), places(cache.pages) {
  if (cache.pages == 0)
    return;
  slotsOfGroup = cache.slotsOfPool;
  pagesOfGroup = cache.poolOf(0).count;
  numSpare = hostPages > 0 ? 1 : 0;
  hostPagesOfGroup = hostPages * slotsOfGroup / cache.slots + numSpare;
  for (int64_t slot = 0; slot < cache.slots; slot += slotsOfGroup) {
    const PageRange pool = cache.poolOf(slot);
    std::vector<int32_t> &free = groups.emplace_back().free;
    for (int64_t page = pool.first + pool.count; page-- > pool.first;)
      free.push_back(static_cast<int32_t>(page));
    groups.back().pages = pool.count;
    const int64_t first = std::ssize(hostHolders);
    for (int64_t place = first + hostPagesOfGroup; place-- > first;)
      groups.back().freeOnHost.push_back(
          static_cast<int32_t>(kNoPage - 1 - place));
    hostHolders.resize(first + hostPagesOfGroup);
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
  if (--holdersOf(page) > 0)
    return false;
  release(page);
  return true;
}

void PagePool::release(int32_t page) {
  if (isOnHost(page)) {
    groups[placeOnHost(page) / hostPagesOfGroup].freeOnHost.push_back(page);
    return;
  }
  Group &group = groups[page / pagesOfGroup];
  group.free.push_back(page);
  if (places[page])
    group.prefixes.erase(*places[page]);
  places[page].reset();
}

int32_t PagePool::moveOut(int32_t page) {
  std::vector<int32_t> &free = groups[page / pagesOfGroup].freeOnHost;
  const int32_t onHost = free.back();
  free.pop_back();
  holdersOf(onHost) = std::exchange(holders[page], 0);
  release(page);
  return onHost;
}

int32_t PagePool::moveIn(int32_t onHost) {
  std::vector<int32_t> &free =
      groups[placeOnHost(onHost) / hostPagesOfGroup].free;
  const int32_t page = free.back();
  free.pop_back();
  holders[page] = std::exchange(holdersOf(onHost), 0);
  release(onHost);
  return page;
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
  counts.onHost =
      std::ranges::count_if(hostHolders, [](int64_t n) { return n > 0; });
  return counts;
}
