//===- SharedPages.cpp - Pages that several texts or beams have -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextPages.h"

#include "optimus-support/CachePages.h"

#include <algorithm>
#include <numeric>

using namespace optrt;
using optimus_support::kPageTokens;

//===----------------------------------------------------------------------===//
// Equal beginnings of prompts
//===----------------------------------------------------------------------===//

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
TextPages::findPrefix(const Text &text, int64_t group,
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

void TextPages::adoptPrefix(Text &text, int64_t slot) {
  if (!pool)
    return;
  std::vector<int32_t> &pages = lists[slot];
  if (std::ssize(pages) * kPageTokens != text.cached)
    return;
  const int64_t group = pool->groupOf(slot);
  const std::vector<int32_t> found = findPrefix(text, group, pages);
  for (int32_t page : found)
    pool->hold(page);
  pages.insert(pages.end(), found.begin(), found.end());
  const int64_t count = std::ssize(found);
  promiseMore(text, group, -count);
  text.cached += count * kPageTokens;
  counters.sharedTokens += count * kPageTokens;
}

void TextPages::publishPrefix(const Text &text, int64_t slot) {
  if (!pool || text.slides)
    return;
  const std::vector<int32_t> &pages = lists[slot];
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

bool TextPages::hasTwin(const Text &text) const {
  auto isTwin = [&](const Text &other) {
    return other.number != text.number && !other.isGiven() && !other.slides &&
           !other.hasWholePrompt() &&
           other.request.prompt == text.request.prompt;
  };
  return pool && slots.anyOf(isTwin);
}

void TextPages::keepForTwins(std::span<const Choice> choices) {
  for (const Choice &choice : choices) {
    Text &text = slots[choice.slot];
    const bool isFirst = text.generated.empty() && !text.isInBeams();
    if (!isFirst || text.isGiven() || text.slides || !hasTwin(text))
      continue;
    text.isForkable = true;
    text.firstLogits.assign(choice.logits.begin(), choice.logits.end());
  }
}

Status TextPages::forkPrompts(std::vector<Choice> &choices) {
  if (!pool)
    return okStatus();
  const std::vector<int64_t> taken = slots.findTaken();
  for (int64_t slot : taken) {
    const Text &text = slots[slot];
    if (text.isGiven() || text.slides || text.isParked || text.hasWholePrompt())
      continue;
    for (int64_t from : taken) {
      const Text &other = slots[from];
      if (!other.isForkable || other.isParked ||
          pool->groupOf(from) != pool->groupOf(slot) ||
          other.request.prompt != text.request.prompt ||
          // For what is not shared.
          pool->numFree(pool->groupOf(slot)) == 0)
        continue;
      choices.push_back({.slot = slot});
      choices.back().keep(other.firstLogits);
      OPTRT_RETURN_IF_ERROR(forkPrompt(from, slot));
      break;
    }
  }
  return okStatus();
}

Status TextPages::forkPrompt(int64_t from, int64_t into) {
  Text &text = slots[into];
  if (slots[from].isInBeams())
    from = slots[from].beams->slots.front();
  const int64_t group = pool->groupOf(into), size = text.promptSize();
  const std::vector<int32_t> &all = lists[from];
  std::vector<int32_t> pages(all.begin(), all.begin() + size / kPageTokens);
  for (int32_t page : pages)
    pool->hold(page);
  const int64_t before = std::ssize(lists[into]);
  drop(into);
  // With those promised, it has as many as at first.
  promiseMore(text, group, before - std::ssize(pages));
  lists[into] = std::move(pages);
  counters.sharedTokens += size - text.cached;
  text.cached = size;
  OPTRT_RETURN_IF_ERROR(take(text, into, size).status());
  const int64_t written = size % kPageTokens;
  return written == 0
             ? okStatus()
             : control.agree(session.copyPage(entries.decode->name,
                                              all[size / kPageTokens],
                                              lists[into].back(), written));
}

Status TextPages::sharePages(Text &text, const TextBeams::Moves &moves) {
  const auto &[from, into] = moves;
  const int64_t group = pool->groupOf(from.front());
  for (int64_t slot : text.beams->kept)
    if (std::ranges::find(from, slot) == from.end())
      promiseMore(text, group, drop(slot));
  const int64_t written = text.cached % kPageTokens;
  for (std::size_t i = 0; i != from.size(); ++i) {
    if (from[i] == into[i])
      continue;
    std::vector<int32_t> &pages = lists[into[i]] = lists[from[i]];
    if (written != 0)
      pages.pop_back();
    for (int32_t page : pages)
      pool->hold(page);
    if (written == 0)
      continue;
    OPTRT_RETURN_IF_ERROR(take(text, into[i], text.cached).status());
    OPTRT_RETURN_IF_ERROR(control.agree(session.copyPage(
        entries.decode->name, lists[from[i]].back(), pages.back(), written)));
  }
  return okStatus();
}

Status TextPages::forkBeams(Text &text, const TextBeams::Moves &moves) {
  if (pool)
    return sharePages(text, moves);
  for (std::size_t i = 0; i != moves.from.size(); ++i)
    if (moves.from[i] != moves.into[i])
      OPTRT_RETURN_IF_ERROR(control.agree(session.copySlot(
          entries.decode->name, moves.from[i], moves.into[i], text.cached)));
  return okStatus();
}
