//===- SessionSlots.cpp - Tokens for the slots of a cache -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Session.h"

#include <algorithm>

namespace optrt {

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
  return okStatus();
}

Status Session::fillSlots(std::string_view name,
                          std::span<const SlotTokens> slots) {
  const Function *function = manifest().findFunction(name);
  const std::optional<CacheExtents> cache =
      function ? manifest().cacheOf(*function) : std::nullopt;
  if (!cache || (function->kind != EntryKind::Prefill &&
                 function->kind != EntryKind::Decode))
    return internal(concat("the function ", name, " has no slots"));
  const int64_t width = function->sequence;
  std::vector<int32_t> tokens(cache->slots * width),
      // Slots without a token, and what is beyond a chunk, have no place.
      positions(cache->slots * width, -1), lengths(cache->slots);
  for (const SlotTokens &given : slots) {
    OPTRT_RETURN_IF_ERROR(
        check(given, *function, *cache, manifest().vocabulary));
    if (lengths[given.slot] != 0)
      return invalidArgument(concat(name, ", slot ", given.slot,
                                    ": expected the tokens of one text, found "
                                    "two"));
    const int64_t first = given.slot * width;
    std::copy(given.tokens.begin(), given.tokens.end(), tokens.begin() + first);
    for (int64_t i = 0; i != std::ssize(given.tokens); ++i)
      positions[first + i] = static_cast<int32_t>(given.position + i);
    lengths[given.slot] =
        static_cast<int32_t>(given.position + std::ssize(given.tokens));
  }
  const std::string kind(toString(function->kind));
  setWords(kind + "_tokens", tokens);
  setWords(kind + "_positions", positions, /*padding=*/-1);
  setWords("lengths", lengths);
  return okStatus();
}

} // namespace optrt
