//===- GenerationEntries.cpp - What generates in a library ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckToken.h"
#include "Text.h"
#include "optimus-support/CachePages.h"

#include <algorithm>
#include <cmath>

using namespace optrt;
using optimus_support::kPageTokens;
using optimus_support::pagesFor;

/// How many of the most probable tokens of so many rows a function says.
static int64_t countBest(const Manifest &manifest, const Function &function,
                         const char *output, int64_t rows) {
  const std::optional<int64_t> index = manifest.findRole(output);
  const Arg *arg = index ? function.findArg(*index) : nullptr;
  if (!arg || arg->access == Access::Read)
    return 0;
  const Buffer &buffer = manifest.buffers[*index];
  const std::vector<int64_t> &shape = buffer.layout.shape;
  const bool isKnown = buffer.type == optimus_support::ElementType::F32 &&
                       shape.size() == 3 && shape[0] == rows && shape[1] == 1;
  return isKnown ? shape[2] / 2 : 0;
}

StatusOr<GenerationEntries> GenerationEntries::find(const std::string &library,
                                                    const Manifest &manifest) {
  GenerationEntries found;
  for (auto [kind, entry] : {std::pair(EntryKind::Prefill, &found.prefill),
                             {EntryKind::Decode, &found.decode}}) {
    OPTRT_ASSIGN_OR_RETURN(*entry, manifest.findEntry(library, kind));
  }
  const std::optional<CacheExtents> prefilled =
                                        manifest.cacheOf(*found.prefill),
                                    decoded = manifest.cacheOf(*found.decode);
  if (!prefilled || prefilled != decoded)
    return invalidArgument(concat("`", library, "`: expected one cache of ",
                                  found.prefill->name, " and ",
                                  found.decode->name));
  OPTRT_ASSIGN_OR_RETURN(
      int64_t logits, manifest.findOutput(library, *found.decode, kNextLogits));
  if (manifest.has(EntryKind::Score)) {
    OPTRT_ASSIGN_OR_RETURN(found.score,
                           manifest.findEntry(library, EntryKind::Score));
    if (manifest.cacheOf(*found.score) != decoded)
      return invalidArgument(concat("`", library, "`: expected one cache of ",
                                    found.score->name, " and ",
                                    found.decode->name));
  }
  found.cache = *decoded;
  found.chunk = found.prefill->sequence;
  for (const Function *function : {found.prefill, found.decode, found.score})
    for (const Function *preparer : function
                                        ? manifest.findPreparersOf(*function)
                                        : std::vector<const Function *>())
      if (std::find(found.preparers.begin(), found.preparers.end(), preparer) ==
          found.preparers.end())
        found.preparers.push_back(preparer);
  found.vocabulary = manifest.buffers[logits].layout.shape.back();
  const int64_t best = countBest(manifest, *found.prefill, kPromptBest, 1);
  if (best == countBest(manifest, *found.decode, kNextBest, found.cache.slots))
    found.best = best;
  return found;
}

std::vector<std::string> GenerationEntries::functions() const {
  std::vector<std::string> names;
  for (const Function *preparer : preparers)
    names.push_back(preparer->name);
  names.insert(names.end(), {prefill->name, decode->name});
  return names;
}

StatusOr<std::vector<std::string>>
GenerationEntries::scoringFunctions(const std::string &library) const {
  if (!score)
    return invalidArgument(
               concat("`", library, "` has no function of the kind score"))
        .withAdvice("`--generate` of the models' builders writes one");
  std::vector<std::string> names = {score->name};
  for (const Function *preparer : preparers)
    names.push_back(preparer->name);
  return names;
}

Status GenerationEntries::prepare(Session &session) const {
  for (const Function *reader : {prefill, decode, score})
    if (reader && session.hasChosen(*reader))
      OPTRT_RETURN_IF_ERROR(session.prepareFor(*reader));
  return okStatus();
}

/// What a text of several beams may ask for.
static Status checkBeams(const GenerationRequest &request,
                         const CacheExtents &cache) {
  const bool hasPages = cache.pages != 0;
  const int64_t slots = hasPages ? cache.slotsOfPool : cache.slots;
  if (request.beams < 1 || request.beams > slots)
    return invalidArgument(
        concat("expected from 1 to ", slots, " beams, one a slot of ",
               hasPages ? "a rank, whose pages they share" : "the library",
               ", found ", request.beams));
  constexpr double kMostPenalty = 100;
  // What is no number is in no range.
  if (!(std::abs(request.lengthPenalty) <= kMostPenalty))
    return invalidArgument(concat(
        "the length penalty is ", request.lengthPenalty,
        "; expected a number from -", kMostPenalty, " to ", kMostPenalty));
  if (request.sampling.temperature != 0)
    return invalidArgument(concat("beams are chosen by their scores; expected "
                                  "temperature 0 beside them, found ",
                                  request.sampling.temperature));
  if (!request.continuation.empty() || request.wantsLogits ||
      request.wantsScores || request.numBest != 0)
    return invalidArgument("expected no continuation, logits or "
                           "log-probabilities of single tokens beside beams");
  return okStatus();
}

Status GenerationEntries::check(const GenerationRequest &request) const {
  const int64_t size = std::ssize(request.prompt);
  const int64_t context = cache.context;
  if (size == 0)
    return invalidArgument("the prompt has no token; expected at least one, "
                           "which the first new one follows");
  for (auto [where, tokens] :
       {std::pair("the prompt", std::span<const int32_t>(request.prompt)),
        {"the continuation", request.continuation}})
    for (std::size_t i = 0; i != tokens.size(); ++i)
      OPTRT_RETURN_IF_ERROR(
          checkToken(tokens[i], vocabulary, "token ", i, " of ", where, " is"));
  // The last token that is generated is put nowhere.
  const int64_t place = context - size + 1;
  if (place < 1)
    return invalidArgument(concat("the prompt has ", size,
                                  " tokens; expected at most the ", context,
                                  " of the context that the library was "
                                  "compiled for"));
  const int64_t asked = request.continuation.empty()
                            ? request.maxTokens
                            : std::ssize(request.continuation);
  if (asked < 0 || asked > place)
    return invalidArgument(
        concat("expected at most ", place, " new tokens behind a prompt of ",
               size, " in a context of ", context, ", found ", asked));
  for (const std::vector<int32_t> &stop : request.stops) {
    if (stop.empty())
      return invalidArgument("expected a stop of at least one token, found an "
                             "empty one");
    for (int32_t token : stop)
      OPTRT_RETURN_IF_ERROR(
          checkToken(token, vocabulary, "a stop has the token"));
  }
  if (request.beams != 1)
    OPTRT_RETURN_IF_ERROR(checkBeams(request, cache));
  OPTRT_RETURN_IF_ERROR(checkPages(request, std::max<int64_t>(asked, 1)));
  return request.sampling.check(vocabulary);
}

//===----------------------------------------------------------------------===//
// Pages
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

Status GenerationEntries::checkHostPages(int64_t hostPages) const {
  if (hostPages == 0)
    return okStatus();
  if (cache.pages == 0)
    return invalidArgument("expected a library whose cache has pages, built "
                           "with --generate slots=...,pages=N; found one "
                           "without");
  const int64_t pools = cache.slots / cache.slotsOfPool;
  if (hostPages < pools)
    return invalidArgument(concat("expected a page at least for the slots of "
                                  "each rank, ",
                                  pools, " in all; found ", hostPages));
  return okStatus();
}
