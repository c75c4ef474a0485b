//===- HostPages.cpp - Pages of texts that wait, on the host --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// More texts are let in than there are pages for, since few have as many tokens
// as they may. Where pages run out, the youngest texts wait, and their pages
// move to the host, from their ends on, and only as many as others need:
//
//   pages      host
//   A A B B C           A, the oldest, comes to its third page
//   A A B B A  C        C is parked
//   A A A B B  C        ...
//   C - - B B           A has ended: C goes on
//
// The oldest text always goes on: it parks all others, and fits beside those
// that cannot be parked. Both places together have the pages that all texts may
// need, so there is room on the host.
//
//===----------------------------------------------------------------------===//

#include "TextPages.h"

#include "optimus-support/CachePages.h"

#include <algorithm>

using namespace optrt;
using optimus_support::pagesFor;

bool TextPages::fitsBeside(const Text &text, int64_t group) const {
  int64_t most = 0, others = 0;
  auto count = [&](const Text &each) {
    const int64_t pages =
        entries.countPages(each.request, each.request.maxTokens);
    if (each.canPark())
      most = std::max(most, pages);
    else
      others += pages;
  };
  count(text);
  for (int64_t slot : slots.findTaken()) {
    const Text &other = slots[slot];
    if (pool->groupOf(slot) != group)
      continue;
    // Others come first.
    if (other.isParked)
      return false;
    count(other);
  }
  return most + others <= pool->numPages(group);
}

std::optional<int32_t> TextPages::parkFor(int64_t group, int64_t number) {
  // Texts that wait already, and then others, the youngest first.
  std::vector<int64_t> own, candidates;
  for (int64_t slot = 0; slot != slots.size(); ++slot) {
    if (pool->groupOf(slot) != group || lists[slot].empty())
      continue;
    own.push_back(slot);
    if (slots.has(slot) && slots[slot].canPark() && slots[slot].number > number)
      candidates.push_back(slot);
  }
  std::ranges::sort(candidates, std::greater(), [&](int64_t slot) {
    return std::pair(slots[slot].isParked, slots[slot].number);
  });
  // The last page of a slot that is not on the host.
  auto lastOf = [&](int64_t slot) {
    const std::vector<int32_t> &pages = lists[slot];
    const auto last = std::find_if_not(pages.rbegin(), pages.rend(),
                                       &PagePool::isOnHost);
    return last == pages.rend() ? kNoPage : *last;
  };
  for (std::size_t count = 1; count <= candidates.size(); ++count)
    for (std::size_t i = 0; i != count; ++i) {
      const int32_t page = lastOf(candidates[i]);
      auto keeps = [&](int64_t slot) {
        return std::ranges::find(lists[slot], page) != lists[slot].end() &&
               (lastOf(slot) != page ||
                std::find(candidates.begin(), candidates.begin() + count,
                          slot) == candidates.begin() + count);
      };
      if (page == kNoPage || std::ranges::any_of(own, keeps))
        continue;
      for (int64_t slot : own)
        if (lastOf(slot) == page)
          slots[slot].isParked = true;
      return page;
    }
  return std::nullopt;
}

StatusOr<bool> TextPages::makeRoom(const Text &text, int64_t group,
                                   int64_t pages) {
  while (pool->numFree(group) < pages) {
    const std::optional<int32_t> page =
        parkFor(group, text.canPark() ? text.number : -1);
    if (!page || pool->numFreeOnHost(group) == 0)
      return false;
    OPTRT_RETURN_IF_ERROR(moveOut(*page));
  }
  return true;
}

Status TextPages::moveOut(int32_t page) {
  const int32_t moved = pool->moveOut(page);
  for (std::vector<int32_t> &each : lists)
    std::ranges::replace(each, page, moved);
  ++counters.movedPages;
  return control.agree(session.savePage(
      entries.decode->name, page, onHost[PagePool::placeOnHost(moved)]));
}

Status TextPages::moveIn(int32_t page) {
  const int32_t moved = pool->moveIn(page);
  for (std::vector<int32_t> &each : lists)
    std::ranges::replace(each, page, moved);
  Session::HostPage &from = onHost[PagePool::placeOnHost(page)];
  OPTRT_RETURN_IF_ERROR(control.agree(
      session.loadPage(entries.decode->name, from, moved)));
  from.clear();
  return okStatus();
}

Status TextPages::resumeParked() {
  const std::vector<int64_t> taken = slots.findTaken();
  std::vector<int64_t> parked;
  for (int64_t slot : taken)
    if (slots[slot].isParked)
      parked.push_back(slot);
  std::ranges::sort(parked, {},
                    [&](int64_t slot) { return slots[slot].number; });
  std::vector<int64_t> waits; // groups of which one does
  for (int64_t slot : parked) {
    Text &text = slots[slot];
    const int64_t group = pool->groupOf(slot);
    if (std::ranges::find(waits, group) != waits.end())
      continue;
    std::vector<int32_t> &pages = lists[slot];
    const int64_t next =
        text.cached + std::clamp<int64_t>(text.numOfChunks(), 1, entries.chunk);
    const int64_t wanted =
        std::ranges::count_if(pages, &PagePool::isOnHost) +
        std::max<int64_t>(pagesFor(next) - std::ssize(pages), 0);
    const bool isOldest = std::ranges::all_of(taken, [&](int64_t other) {
      return slots[other].number >= text.number || !slots[other].canPark() ||
             pool->groupOf(other) != group;
    });
    if (!isOldest && pool->numFree(group) < wanted) {
      waits.push_back(group);
      continue;
    }
    for (std::size_t i = 0; i != pages.size(); ++i)
      if (const int32_t page = pages[i]; PagePool::isOnHost(page)) {
        OPTRT_ASSIGN_OR_RETURN(const bool hasRoom, makeRoom(text, group, 1));
        if (!hasRoom)
          return noPages(text);
        OPTRT_RETURN_IF_ERROR(moveIn(page));
      }
    text.isParked = false;
  }
  return okStatus();
}
