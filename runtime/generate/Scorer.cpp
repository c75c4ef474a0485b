//===- Scorer.cpp - The probabilities of given texts ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Generator.h"

#include "CheckToken.h"

#include "optimus-support/CachePages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace optrt;
using optimus_support::kPageTokens;
using optimus_support::pagesFor;

/// What is known of so many tokens behind those of a call.
static Status readScores(const StatusOr<HostTensor> &found, int64_t begin,
                         int64_t count, std::vector<double> &scores) {
  OPTRT_RETURN_IF_ERROR(found.status());
  std::vector<float> values(count);
  std::memcpy(values.data(), found->bytes.data() + begin * sizeof(float),
              count * sizeof(float));
  if (std::ranges::any_of(values, [](float v) { return std::isnan(v); }))
    return invalidArgument("a log-probability of the text is nan: the "
                           "parameters are not those of a model, or diverged");
  scores.insert(scores.end(), values.begin(), values.end());
  return okStatus();
}

Status GenerationEntries::checkScored(std::span<const int32_t> tokens,
                                      int64_t first) const {
  const int64_t size = std::ssize(tokens), context = cache.context;
  if (first < 1 || first >= size)
    return invalidArgument(concat("expected at least one token behind another, "
                                  "found ",
                                  size, " of which those from ", first,
                                  " on are asked for"));
  // The last token is put nowhere.
  if (size > context + 1)
    return invalidArgument(concat("the text has ", size,
                                  " tokens; expected at most the ", context,
                                  " of the context that the library was "
                                  "compiled for, and one behind them"));
  if (cache.pages != 0 && pagesFor(size - 1) > cache.poolOf(0).count)
    return invalidArgument(concat("the text has ", size,
                                  " tokens; expected at most the ",
                                  cache.poolOf(0).count * kPageTokens,
                                  " of a rank's pages, and one behind them"));
  for (int64_t i = 0; i != size; ++i)
    OPTRT_RETURN_IF_ERROR(
        checkToken(tokens[i], vocabulary, "token ", i, " of the text is"));
  return okStatus();
}

StatusOr<std::vector<double>> Scorer::score(std::span<const int32_t> tokens,
                                            int64_t first) {
  OPTRT_RETURN_IF_ERROR(entries.checkScored(tokens, first));
  const int64_t size = std::ssize(tokens);
  const std::string &name = entries.score->name;
  std::vector<double> scores;
  // Those of its slot, in their order.
  std::vector<int32_t> pages;
  if (entries.cache.pages != 0) {
    pages.resize(pagesFor(size - 1));
    std::iota(pages.begin(), pages.end(), 0);
  }
  for (int64_t begin = 0; begin < size - 1; begin += entries.chunk) {
    const int64_t count = std::min(entries.chunk, size - 1 - begin);
    // Those that nobody asks for are looked up alike.
    const SlotTokens chunk = {.slot = 0,
                              .position = begin,
                              .tokens = tokens.subspan(begin, count),
                              .targets = tokens.subspan(begin + 1, count),
                              .pages = pages};
    OPTRT_RETURN_IF_ERROR(session.fillSlots(name, {&chunk, 1}));
    OPTRT_RETURN_IF_ERROR(session.run(name).status());
    const int64_t unasked = std::clamp<int64_t>(first - 1 - begin, 0, count);
    if (unasked == count)
      continue;
    const StatusOr<HostTensor> found =
        session.output(name, "log_probabilities");
    OPTRT_RETURN_IF_ERROR(control.agree(
        control.isRoot() ? readScores(found, unasked, count - unasked, scores)
                         : found.status()));
  }
  return scores;
}
