//===- GeneratorPages.cpp - Slots and pages for texts ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PagePool.h"
#include "optimus-support/CachePages.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace optrt;
using optimus_support::kPageTokens;
using optimus_support::pagesFor;

Generator::Generator(Session &session, ControlPlane &control,
                     GenerationEntries entries, int64_t hostPages)
    : session(session), control(control), entries(entries),
      slots(entries.cache.slots), pagesOfSlots(entries.cache.slots) {
  if (entries.cache.pages == 0)
    return;
  pool = std::make_unique<PagePool>(entries.cache, hostPages);
  onHost.resize(pool->numOnHost());
}

Generator::Generator(Generator &&) noexcept = default;
Generator::~Generator() = default;

std::optional<PageCounts> Generator::pages() const {
  return pool ? std::optional(pool->counts()) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// What a text needs
//===----------------------------------------------------------------------===//

/// Beams have the whole pages of their prompt in common, and each its own of
/// those behind.
static int64_t pagesInCommon(const GenerationRequest &request) {
  return request.beams == 1 ? 0 : std::ssize(request.prompt) / kPageTokens;
}

/// Of all tokens; the last one is put nowhere.
static int64_t allPages(const GenerationRequest &request, int64_t newTokens) {
  return pagesFor(std::ssize(request.prompt) + newTokens - 1);
}

int64_t
GenerationEntries::tokensOfCall(const GenerationRequest &request) const {
  return std::min(chunk, std::ssize(request.prompt) +
                             std::ssize(request.continuation));
}

bool GenerationEntries::slides(const GenerationRequest &request,
                               int64_t newTokens) const {
  return cache.pages != 0 && request.beams == 1 &&
         cache.pagesAtOnce(tokensOfCall(request)) <
             allPages(request, newTokens);
}

int64_t GenerationEntries::countPages(const GenerationRequest &request,
                                      int64_t newTokens) const {
  if (cache.pages == 0)
    return 0;
  if (slides(request, newTokens))
    return cache.pagesAtOnce(tokensOfCall(request));
  const int64_t all = allPages(request, newTokens);
  const int64_t common = pagesInCommon(request);
  return common + request.beams * (all - common);
}

int64_t GenerationEntries::placeBehind(const GenerationRequest &request) const {
  int64_t tokens = cache.tokensOfOne(tokensOfCall(request));
  if (cache.pages != 0 && request.beams > 1) {
    const int64_t common = pagesInCommon(request);
    const int64_t own = cache.poolOf(0).count - common;
    const int64_t all = own < 0 ? 0 : common + own / request.beams;
    tokens = std::min(tokens, all * kPageTokens);
  }
  // The last token that is generated is put nowhere.
  return tokens - std::ssize(request.prompt) + 1;
}

Status GenerationEntries::checkPages(const GenerationRequest &request,
                                     int64_t newTokens) const {
  if (newTokens <= placeBehind(request))
    return okStatus();
  const int64_t needed = countPages(request, newTokens);
  const int64_t ofEach = (needed + cache.slotsOfPool - 1) / cache.slotsOfPool;
  return invalidArgument(
      concat("a prompt of ", request.prompt.size(), " tokens with ", newTokens,
             newTokens == 1 ? " new one" : " new ones",
             request.beams == 1 ? "" : concat(" in ", request.beams, " beams"),
             " needs ", needed, " pages of ", kPageTokens,
             " tokens; the slots of a rank have ", cache.poolOf(0).count,
             ", and a library with pages=", ofEach * cache.slots,
             " would have as many"));
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

void Generator::admit() {
  std::vector<int64_t> free;
  for (std::size_t slot = 0; slot != slots.size(); ++slot)
    free.push_back(static_cast<int64_t>(slot));
  for (std::size_t slot = 0; slot != slots.size(); ++slot)
    if (slots[slot]) {
      std::erase(free, static_cast<int64_t>(slot));
      for (int64_t kept : slots[slot]->kept)
        std::erase(free, kept);
    }
  // Others do not overtake a text that needs more than there is.
  while (!waiting.empty()) {
    const std::vector<int64_t> chosen = chooseSlots(waiting.front(), free);
    if (chosen.empty())
      return;
    Text &text = slots[chosen.front()].emplace(std::move(waiting.front()));
    waiting.pop_front();
    if (text.search)
      text.kept = chosen;
    for (int64_t slot : chosen)
      std::erase(free, slot);
    promisePages(text, chosen.front());
  }
}

std::vector<int64_t>
Generator::chooseSlots(const Text &text, std::span<const int64_t> free) const {
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

void Generator::leave(int64_t slot) {
  Text &text = *slots[slot];
  if (pool) {
    dropPages(slot);
    for (int64_t kept : text.kept)
      dropPages(kept);
    pool->promise(pool->groupOf(slot), -text.promised);
  }
  slots[slot].reset();
}

//===----------------------------------------------------------------------===//
// Pages
//===----------------------------------------------------------------------===//

int64_t Generator::dropPages(int64_t slot) {
  int64_t freed = 0;
  for (int32_t page : pagesOfSlots[slot]) {
    if (page == kNoPage || !pool->drop(page))
      continue;
    if (PagePool::isOnHost(page))
      onHost[PagePool::placeOnHost(page)].clear();
    else
      ++freed;
  }
  pagesOfSlots[slot].clear();
  return freed;
}

void Generator::promisePages(Text &text, int64_t slot) {
  if (!pool)
    return;
  const int64_t needed =
      entries.countPages(text.request, text.request.maxTokens);
  text.promised = needed;
  pool->promise(pool->groupOf(slot), needed);
  adoptPrefix(text, slot);
}

void Generator::dropBehindWindow(Text &text, int64_t slot) {
  std::vector<int32_t> &pages = pagesOfSlots[slot];
  const int64_t first = std::max<int64_t>(
      text.cached + 1 - entries.cache.window, 0); // key of the next token
  for (int64_t i = 0; i != first / kPageTokens; ++i)
    if (const int32_t page = std::exchange(pages[i], kNoPage);
        page != kNoPage) {
      pool->drop(page);
      ++text.promised;
      pool->promise(pool->groupOf(slot), 1);
    }
}

StatusOr<bool> Generator::takePages(Text &text, int64_t slot, int64_t tokens) {
  if (!pool)
    return true;
  std::vector<int32_t> &pages = pagesOfSlots[slot];
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

/// Tokens from position 0 of which a prompt has some of others' pages: chunks
/// and pages are whole, so that they were computed as the text's own would be.
static int64_t sharedStep(int64_t chunk) {
  return std::lcm(chunk, kPageTokens);
}

/// The tokens of a page.
static std::span<const int32_t> tokensOf(const GenerationRequest &request,
                                         int64_t page) {
  return std::span(request.prompt).subspan(page * kPageTokens, kPageTokens);
}

std::vector<int32_t>
Generator::findPrefix(const Text &text, int64_t group,
                      std::span<const int32_t> before) const {
  const int64_t step = sharedStep(entries.chunk) / kPageTokens;
  int64_t whole = std::ssize(before);
  std::vector<int32_t> found;
  if (text.isGiven() || text.slides || whole % step != 0)
    return found;
  int32_t last = before.empty() ? -1 : before.back();
  // A prompt's last token is the text's own.
  for (; (whole + step) * kPageTokens < text.promptSize(); whole += step)
    for (int64_t page = whole; page != whole + step; ++page) {
      last = pool->findPrefix(group, last, tokensOf(text.request, page));
      if (last < 0) {
        found.resize(whole - std::ssize(before));
        return found;
      }
      found.push_back(last);
    }
  return found;
}

void Generator::adoptPrefix(Text &text, int64_t slot) {
  if (!pool)
    return;
  std::vector<int32_t> &pages = pagesOfSlots[slot];
  if (std::ssize(pages) * kPageTokens != text.cached)
    return;
  const int64_t group = pool->groupOf(slot);
  const std::vector<int32_t> found = findPrefix(text, group, pages);
  for (int32_t page : found)
    pool->hold(page);
  pages.insert(pages.end(), found.begin(), found.end());
  const int64_t count = std::ssize(found);
  text.promised -= count;
  pool->promise(group, -count);
  text.cached += count * kPageTokens;
  counts.sharedTokens += count * kPageTokens;
}

void Generator::publishPrefix(const Text &text, int64_t slot) {
  if (!pool || text.slides)
    return;
  const std::vector<int32_t> &pages = pagesOfSlots[slot];
  int32_t before = -1;
  for (int64_t page = 0; page != text.cached / kPageTokens; ++page) {
    if (!pool->isPrefix(pages[page]))
      pool->addPrefix(pool->groupOf(slot), before, tokensOf(text.request, page),
                      pages[page]);
    // Another text has it.
    if (!pool->isPrefix(pages[page]))
      return;
    before = pages[page];
  }
}

//===----------------------------------------------------------------------===//
// Forks
//===----------------------------------------------------------------------===//

bool Generator::hasTwin(const Text &text) const {
  auto isTwin = [&](const Text &other) {
    return other.number != text.number && !other.isGiven() && !other.slides &&
           !other.hasWholePrompt() &&
           other.request.prompt == text.request.prompt;
  };
  return std::ranges::any_of(waiting, isTwin) ||
         std::ranges::any_of(slots, [&](const std::optional<Text> &other) {
           return other && isTwin(*other);
         });
}

void Generator::keepForTwins(std::span<const Choice> choices) {
  for (const Choice &choice : choices) {
    Text &text = *slots[choice.slot];
    const bool isFirst = text.generated.empty() && text.slotsOfBeams.empty();
    if (!pool || !isFirst || text.isGiven() || text.slides || !hasTwin(text))
      continue;
    text.isForkable = true;
    text.firstLogits = choice.logits;
  }
}

Status Generator::forkPrompts(std::vector<Choice> &choices) {
  const auto count = static_cast<int64_t>(pool ? slots.size() : 0);
  for (int64_t slot = 0; slot != count; ++slot) {
    const std::optional<Text> &text = slots[slot];
    if (!text || text->isGiven() || text->slides || text->isParked ||
        text->hasWholePrompt())
      continue;
    for (int64_t from = 0; from != count; ++from) {
      const std::optional<Text> &other = slots[from];
      if (!other || !other->isForkable || other->isParked ||
          pool->groupOf(from) != pool->groupOf(slot) ||
          other->request.prompt != text->request.prompt ||
          // For what is not shared.
          pool->numFree(pool->groupOf(slot)) == 0)
        continue;
      choices.push_back({.slot = slot, .logits = other->firstLogits});
      OPTRT_RETURN_IF_ERROR(forkPrompt(from, slot));
      break;
    }
  }
  return okStatus();
}

Status Generator::forkPrompt(int64_t from, int64_t into) {
  const Text &other = *slots[from];
  Text &text = *slots[into];
  if (!other.slotsOfBeams.empty())
    from = other.slotsOfBeams.front();
  const int64_t group = pool->groupOf(into), size = text.promptSize();
  const std::vector<int32_t> &all = pagesOfSlots[from];
  std::vector<int32_t> pages(all.begin(), all.begin() + size / kPageTokens);
  for (int32_t page : pages)
    pool->hold(page);
  const int64_t before = std::ssize(pagesOfSlots[into]);
  dropPages(into);
  // With those promised, it has as many as at first.
  const int64_t more = before - std::ssize(pages);
  text.promised += more;
  pool->promise(group, more);
  pagesOfSlots[into] = std::move(pages);
  counts.sharedTokens += size - text.cached;
  text.cached = size;
  OPTRT_RETURN_IF_ERROR(takePages(text, into, size).status());
  const int64_t written = size % kPageTokens;
  return written == 0 ? okStatus()
                      : control.agree(session.copyPage(
                            entries.decode->name, all[size / kPageTokens],
                            pagesOfSlots[into].back(), written));
}

Status Generator::forkPages(Text &text, std::span<const int64_t> from,
                            std::span<const int64_t> into) {
  const int64_t group = pool->groupOf(from.front());
  auto giveBack = [&](int64_t pages) {
    text.promised += pages;
    pool->promise(group, pages);
  };
  for (int64_t slot : text.kept)
    if (std::ranges::find(from, slot) == from.end())
      giveBack(dropPages(slot));
  const int64_t written = text.cached % kPageTokens;
  for (std::size_t i = 0; i != from.size(); ++i) {
    if (from[i] == into[i])
      continue;
    std::vector<int32_t> &pages = pagesOfSlots[into[i]] = pagesOfSlots[from[i]];
    if (written != 0)
      pages.pop_back();
    for (int32_t page : pages)
      pool->hold(page);
    if (written == 0)
      continue;
    OPTRT_RETURN_IF_ERROR(takePages(text, into[i], text.cached).status());
    OPTRT_RETURN_IF_ERROR(control.agree(
        session.copyPage(entries.decode->name, pagesOfSlots[from[i]].back(),
                         pages.back(), written)));
  }
  return okStatus();
}

Status Generator::forkSlots(const Text &text, std::span<const int64_t> from,
                            std::span<const int64_t> into) {
  for (std::size_t i = 0; i != from.size(); ++i)
    if (from[i] != into[i])
      OPTRT_RETURN_IF_ERROR(control.agree(session.copySlot(
          entries.decode->name, from[i], into[i], text.cached)));
  return okStatus();
}
