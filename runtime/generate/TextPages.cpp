//===- TextPages.cpp - The pages of texts ---------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextPages.h"

#include "optimus-support/CachePages.h"

#include <algorithm>
#include <utility>

using namespace optrt;
using optimus_support::kPageTokens;
using optimus_support::pagesFor;

TextPages::TextPages(TextSlots &slots, Session &session, ControlPlane &control,
                     const GenerationEntries &entries,
                     GenerationCounters &counters, int64_t hostPages)
    : slots(slots), session(session), control(control), entries(entries),
      counters(counters), lists(slots.size()) {
  if (entries.cache.pages == 0)
    return;
  pool = std::make_unique<PagePool>(entries.cache, hostPages);
  onHost.resize(pool->numOnHost());
}

std::optional<PageCounts> TextPages::counts() const {
  if (!pool)
    return std::nullopt;
  PageCounts counts = pool->counts();
  counts.hostBytes =
      pool->numOnHost() * kPageTokens * entries.cache.bytesPerToken;
  return counts;
}

std::vector<int64_t>
TextPages::chooseSlots(const Text &text, std::span<const int64_t> free) const {
  const int64_t beams = text.request.beams;
  if (!pool)
    return std::ssize(free) < beams
               ? std::vector<int64_t>()
               : std::vector<int64_t>(free.begin(), free.begin() + beams);
  // Of slots with the same pages: where most are shared, and then where most
  // are left.
  const int64_t all = entries.countPages(text.request, text.request.maxTokens);
  std::map<int64_t, std::vector<int64_t>> groups;
  for (int64_t slot : free)
    groups[pool->groupOf(slot)].push_back(slot);
  std::vector<int64_t> best;
  std::pair<int64_t, int64_t> most = {-1, 0};
  for (auto &[group, own] : groups) {
    const int64_t shared = std::ssize(findPrefix(text, group, {}));
    const int64_t left = pool->available(group) - (all - shared);
    if (std::ssize(own) < beams || left < 0 ||
        most >= std::pair(shared, left) || !fitsBeside(text, group))
      continue;
    most = {shared, left};
    own.resize(beams);
    best = std::move(own);
  }
  return best;
}

void TextPages::promiseMore(Text &text, int64_t group, int64_t pages) {
  text.promised += pages;
  pool->promise(group, pages);
}

void TextPages::promise(Text &text, int64_t slot) {
  if (!pool)
    return;
  promiseMore(text, pool->groupOf(slot),
              entries.countPages(text.request, text.request.maxTokens));
  adoptPrefix(text, slot);
}

void TextPages::leave(const Text &text, int64_t slot) {
  if (!pool)
    return;
  drop(slot);
  if (text.beams)
    for (int64_t kept : text.beams->kept)
      drop(kept);
  pool->promise(pool->groupOf(slot), -text.promised);
}

int64_t TextPages::drop(int64_t slot) {
  int64_t freed = 0;
  for (int32_t page : lists[slot]) {
    if (page == kNoPage || !pool->drop(page))
      continue;
    if (PagePool::isOnHost(page))
      onHost[PagePool::placeOnHost(page)].clear();
    else
      ++freed;
  }
  lists[slot].clear();
  return freed;
}

void TextPages::dropBehindWindow(Text &text, int64_t slot) {
  std::vector<int32_t> &pages = lists[slot];
  const int64_t first = std::max<int64_t>(
      text.cached + 1 - entries.cache.window, 0); // key of the next token
  for (int64_t i = 0; i != first / kPageTokens; ++i)
    if (const int32_t page = std::exchange(pages[i], kNoPage);
        page != kNoPage) {
      pool->drop(page);
      promiseMore(text, pool->groupOf(slot), 1);
    }
}

StatusOr<bool> TextPages::take(Text &text, int64_t slot, int64_t tokens) {
  if (!pool)
    return true;
  std::vector<int32_t> &pages = lists[slot];
  if (text.slides)
    dropBehindWindow(text, slot);
  const int64_t group = pool->groupOf(slot);
  const int64_t more = pagesFor(tokens) - std::ssize(pages);
  OPTRT_ASSIGN_OR_RETURN(const bool hasRoom, makeRoom(text, group, more));
  if (!hasRoom && !text.canPark())
    return noPages(text);
  text.isParked = !hasRoom;
  for (int64_t i = 0; i < more && hasRoom; ++i) {
    pages.push_back(pool->take(group));
    --text.promised;
  }
  return hasRoom;
}
