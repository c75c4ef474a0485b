//===- SessionSlots.cpp - Tokens for the slots of a cache -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "ShardExchange.h"
#include "optimus-runtime/Session.h"
#include "optimus-support/CachePages.h"

#include <algorithm>

namespace optrt {

using optimus_support::kPageTokens;
using optimus_support::pagesFor;

/// Checks the pages of a slot, which hold so many tokens.
static Status checkPages(const SlotTokens &given, const Function &function,
                         const CacheExtents &cache, int64_t tokens) {
  auto fail = [&](auto... parts) {
    return invalidArgument(
        concat(function.name, ", slot ", given.slot, ": ", parts...));
  };
  const int64_t least = cache.pages == 0 ? 0 : pagesFor(tokens);
  const int64_t most = cache.pages == 0 ? 0 : cache.context / kPageTokens;
  const int64_t count = std::ssize(given.pages);
  if (count < least || count > most)
    return fail("expected from ", least, " to ", most, " pages of ",
                kPageTokens, " tokens, found ", count);
  if (count == 0)
    return okStatus();
  const PageRange pool = cache.poolOf(given.slot);
  // The first key that a token sees.
  const int64_t first =
      cache.window == 0 ? 0 : given.position + 1 - cache.window;
  for (int64_t i = 0; i != count; ++i)
    if (given.pages[i] == kNoPage && (i + 1) * kPageTokens <= first)
      continue;
    else if (given.pages[i] < pool.first ||
             given.pages[i] >= pool.first + pool.count)
      return fail("expected pages of its ranks, from ", pool.first, " to ",
                  pool.first + pool.count - 1, ", found ", given.pages[i],
                  " in place ", i);
  return okStatus();
}

/// Checks what is given to a slot.
static Status check(const SlotTokens &given, const Function &function,
                    const CacheExtents &cache, int64_t vocabulary) {
  const int64_t count = std::ssize(given.tokens);
  auto fail = [&](auto... parts) {
    return invalidArgument(
        concat(function.name, ", slot ", given.slot, ": ", parts...));
  };
  if (given.slot < 0 || given.slot >= cache.slots)
    return fail("expected one of the ", cache.slots,
                " slots of the cache, from 0 on");
  if (count < 1 || count > function.sequence)
    return fail("expected from 1 to ", function.sequence, " tokens, found ",
                count);
  if (given.position < 0 || given.position > cache.context - count)
    return fail("expected positions within the context of ", cache.context,
                " tokens that the library was compiled for, found ", count,
                " from ", given.position, " on");
  for (int32_t token : given.tokens)
    if (token < 0 || token >= vocabulary)
      return fail("expected tokens of the vocabulary of ", vocabulary,
                  ", from 0 on, found ", token);
  const bool hasTargets = function.kind == EntryKind::Score;
  if (std::ssize(given.targets) != (hasTargets ? count : 0))
    return fail("expected ", hasTargets ? count : 0, " targets, found ",
                given.targets.size());
  for (int32_t target : given.targets)
    if (target >= vocabulary)
      return fail("expected targets of the vocabulary of ", vocabulary,
                  ", or negative ones, found ", target);
  return checkPages(given, function, cache, given.position + count);
}

Status Session::fillSlots(std::string_view name,
                          std::span<const SlotTokens> slots) {
  const Function *function = manifest().findFunction(name);
  const std::optional<CacheExtents> cache =
      function && generates(function->kind) ? manifest().cacheOf(*function)
                                            : std::nullopt;
  if (!cache)
    return internal(concat("the function ", name, " has no slots"));
  for (const SlotTokens &given : slots)
    OPTRT_RETURN_IF_ERROR(
        check(given, *function, *cache, manifest().vocabulary));
  if (cache->pages != 0)
    fillPages(*cache, slots);
  if (function->kind != EntryKind::Decode)
    return fillChunk(*function, slots);
  std::vector<int32_t> tokens(cache->slots),
      // Slots without a token have no place.
      positions(cache->slots, -1), lengths(cache->slots);
  for (const SlotTokens &given : slots) {
    if (lengths[given.slot] != 0)
      return invalidArgument(concat(name, ", slot ", given.slot,
                                    ": expected the tokens of one text, found "
                                    "two"));
    tokens[given.slot] = given.tokens.front();
    positions[given.slot] = static_cast<int32_t>(given.position);
    lengths[given.slot] = static_cast<int32_t>(given.position + 1);
  }
  setWords("decode_tokens", tokens);
  setWords("decode_positions", positions, /*padding=*/-1);
  setWords("lengths", lengths);
  return okStatus();
}

void Session::fillPages(const CacheExtents &cache,
                        std::span<const SlotTokens> slots) {
  const int64_t width = cache.context / kPageTokens;
  const int64_t own = cache.pagesOfSlot();
  std::vector<int32_t> table(cache.slots * width);
  for (const SlotTokens &given : slots)
    std::ranges::transform(
        given.pages, table.begin() + given.slot * width, [&](int32_t page) {
          return page == kNoPage
                     ? 0
                     : static_cast<int32_t>(page - given.slot * own);
        });
  setWords(kPageTable, table);
}

StatusOr<Session::CachePages>
Session::pagesOf(std::string_view name,
                 std::initializer_list<int64_t> pages) const {
  const Function *function = manifest().findFunction(name);
  const std::optional<CacheExtents> cache =
      function ? manifest().cacheOf(*function) : std::nullopt;
  const int64_t count = cache ? cache->pages : 0;
  const int64_t own = count == 0 ? 1 : cache->pagesOfSlot();
  const int64_t first = *pages.begin();
  for (int64_t page : pages)
    if (page < 0 || page >= count ||
        cache->poolOf(page / own).first != cache->poolOf(first / own).first)
      return invalidArgument(concat(name,
                                    ": expected pages of the same ranks, "
                                    "found page ",
                                    page, " of ", count));
  return CachePages{function, own, first / own};
}

Status Session::onPages(
    const CachePages &pages,
    const std::function<Status(LocalRank &, const PageBuffer &)> &body) {
  return onRanks([&](LocalRank &rank) -> Status {
    for (const Arg &arg : pages.function->args) {
      const Buffer &buffer = manifest().buffers[arg.buffer];
      if (!buffer.isCache() || !rank.plan.holds(arg.buffer))
        continue;
      const auto [first, count] = rowsOf(rank.context.rank, buffer);
      if (pages.slot < first || pages.slot >= first + count)
        continue;
      const int64_t row = buffer.numBytes() / buffer.layout.localShape[0] /
                          buffer.layout.localShape[1];
      OPTRT_RETURN_IF_ERROR(
          body(rank, {arg.buffer, first * pages.ofSlot, row}));
    }
    return okStatus();
  });
}

Status Session::copyPage(std::string_view name, int64_t from, int64_t to,
                         int64_t tokens) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a page was copied"));
  OPTRT_ASSIGN_OR_RETURN(const CachePages pages, pagesOf(name, {from, to}));
  if (tokens < 0 || tokens > kPageTokens)
    return invalidArgument(
        concat(name, ": expected tokens of a page, found ", tokens));
  return onPages(pages, [&](LocalRank &rank, const PageBuffer &buffer) {
    return rank.buffers.copyWithin(buffer.index, buffer.place(from),
                                   buffer.place(to), tokens * buffer.row);
  });
}

Status Session::savePage(std::string_view name, int64_t page, HostPage &to) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a page was moved to the host"));
  OPTRT_ASSIGN_OR_RETURN(const CachePages pages, pagesOf(name, {page}));
  to.assign(ranksOfLane().size(), {});
  return onPages(
      pages, [&](LocalRank &rank, const PageBuffer &buffer) -> Status {
        const int64_t count = kPageTokens * buffer.row;
        std::vector<uint8_t> copy;
        OPTRT_ASSIGN_OR_RETURN(const uint8_t *bytes,
                               rank.buffers.read<uint8_t>(buffer.index,
                                                          buffer.place(page),
                                                          count, copy));
        std::vector<uint8_t> &piece = to[placeOf(rank)];
        piece.insert(piece.end(), bytes, bytes + count);
        return okStatus();
      });
}

Status Session::loadPage(std::string_view name, const HostPage &from,
                         int64_t page) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a page was moved to the device"));
  OPTRT_ASSIGN_OR_RETURN(const CachePages pages, pagesOf(name, {page}));
  std::vector<std::size_t> begins(ranksOfLane().size());
  if (from.size() != begins.size())
    return invalidArgument(concat(name, ": expected a page of the ",
                                  begins.size(), " ranks here, found ",
                                  from.size(), " parts"));
  return onPages(
      pages, [&](LocalRank &rank, const PageBuffer &buffer) -> Status {
        const std::size_t place = placeOf(rank);
        const auto count = static_cast<std::size_t>(kPageTokens * buffer.row);
        const std::vector<uint8_t> &piece = from[place];
        if (piece.size() - begins[place] < count)
          return invalidArgument(concat(name,
                                        ": expected a page of its ranks, "
                                        "found ",
                                        piece.size(), " bytes"));
        const auto bytes = std::span(piece).subspan(begins[place], count);
        begins[place] += count;
        return rank.buffers.writeBytes(buffer.index, buffer.place(page), bytes);
      });
}

int64_t Session::PageBuffer::place(int64_t page) const {
  return (page - first) * kPageTokens * row;
}

std::size_t Session::placeOf(const LocalRank &rank) const {
  const auto ranks = ranksOfLane();
  return std::ranges::find(ranks, &rank, &std::unique_ptr<LocalRank>::get) -
         ranks.begin();
}

Status Session::copySlot(std::string_view name, int64_t from, int64_t to,
                         int64_t tokens) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a slot was copied"));
  const Function *function = manifest().findFunction(name);
  const std::optional<CacheExtents> cache =
      function ? manifest().cacheOf(*function) : std::nullopt;
  if (!cache || cache->pages != 0 || std::min(from, to) < 0 ||
      std::max(from, to) >= cache->slots || tokens < 0 ||
      tokens > cache->context)
    return invalidArgument(
        concat(name, ": expected slots and tokens of a cache, found ", tokens,
               " tokens of slot ", from, " for slot ", to));
  for (const Arg &arg : function->args) {
    const Buffer &buffer = manifest().buffers[arg.buffer];
    if (buffer.isCache())
      OPTRT_RETURN_IF_ERROR(copyRows(arg.buffer, from, to, tokens));
  }
  return okStatus();
}

Status Session::copyRows(int64_t index, int64_t from, int64_t to,
                         int64_t rows) {
  const auto &layout = manifest().buffers[index].layout;
  const int64_t ofRank = layout.localShape[0];
  const int64_t context = layout.shape[1];
  if (from / ofRank == to / ofRank)
    return onRanks([&](LocalRank &rank) -> Status {
      const auto [first, count] =
          rowsOf(rank.context.rank, manifest().buffers[index]);
      if (!rank.plan.holds(index) || from < first || from >= first + count)
        return okStatus();
      const int64_t size = manifest().buffers[index].numBytes() / ofRank;
      return rank.buffers.copyWithin(index, (from - first) * size,
                                     (to - first) * size,
                                     size / layout.localShape[1] * rows);
    });
  // Each process has what it needs, piece by piece.
  ShardExchange exchange = exchangeOfShards();
  const int64_t size = layout.numElements() / layout.shape[0];
  const int64_t all = size / context * rows;
  std::vector<float> piece;
  for (int64_t begin = 0; begin < all; begin += kSlabElements) {
    const int64_t count = std::min(all - begin, kSlabElements);
    const std::vector<Slab> slabs(exchange.numProcesses(),
                                  {{index, from * size + begin, count}});
    piece.resize(count);
    OPTRT_RETURN_IF_ERROR(exchange.collect(slabs, std::span(piece)));
    OPTRT_RETURN_IF_ERROR(
        exchange.distributeHere({{index, to * size + begin, count}}, piece));
  }
  return okStatus();
}

Status Session::fillChunk(const Function &function,
                          std::span<const SlotTokens> slots) {
  if (slots.size() != 1)
    return invalidArgument(concat(function.name,
                                  ": expected the tokens of one slot, found "
                                  "those of ",
                                  slots.size()));
  const SlotTokens &given = slots.front();
  const auto count = static_cast<int32_t>(given.tokens.size());
  // What is beyond a chunk has no place.
  std::vector<int32_t> tokens(function.sequence),
      positions(function.sequence, -1), targets(function.sequence, -1);
  std::copy(given.tokens.begin(), given.tokens.end(), tokens.begin());
  std::copy(given.targets.begin(), given.targets.end(), targets.begin());
  for (int32_t i = 0; i != count; ++i)
    positions[i] = static_cast<int32_t>(given.position) + i;
  const std::string kind(toString(function.kind));
  auto set = [&](const char *role, int64_t number) {
    const auto word = static_cast<int32_t>(number);
    setWords(kind + role, std::span(&word, 1));
  };
  setWords(kind + "_tokens", tokens);
  setWords(kind + "_positions", positions, /*padding=*/-1);
  setWords(kind + "_places", positions, /*padding=*/-1);
  set("_slot", given.slot);
  set("_length", given.position + count);
  if (function.kind == EntryKind::Score)
    setWords(kind + "_targets", targets, /*padding=*/-1);
  else
    set("_last", given.wantsLogits ? count - 1 : -1);
  return okStatus();
}

} // namespace optrt
