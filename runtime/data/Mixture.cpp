//===- Mixture.cpp - How data share the sequences of a run ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mixture.h"

#include "optimus-support/Permutation.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>

using namespace optrt;

/// Decimals of a weight are counted in millionths.
static constexpr int kMostDecimals = 6;

/// Millionths of a decimal such as 0.7 or 12, which is positive.
static std::optional<int64_t> parseWeight(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view rest =
      point == std::string_view::npos ? "" : text.substr(point + 1);
  std::string digits(whole);
  digits.append(rest).append(
      kMostDecimals - std::min<std::size_t>(rest.size(), kMostDecimals), '0');
  const bool isNumber =
      std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!isNumber || whole.size() + rest.size() == 0 ||
      rest.size() > kMostDecimals || whole.size() > kMostDecimals)
    return std::nullopt;
  const int64_t value = std::stoll(digits);
  return value > 0 ? std::optional(value) : std::nullopt;
}

StatusOr<std::vector<MixturePart>>
optrt::parseMixture(const std::string &text) {
  std::error_code error;
  if (text.find('=') == std::string::npos ||
      std::filesystem::exists(text, error))
    return std::vector<MixturePart>{{text, 1}};
  std::vector<MixturePart> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    const std::size_t equals = one.rfind('=');
    const std::optional<int64_t> weight =
        equals == std::string::npos || equals == 0
            ? std::nullopt
            : parseWeight(std::string_view(one).substr(equals + 1));
    if (!weight)
      return invalidArgument(concat("the data ", text,
                                    ": expected PATH=WEIGHT with a weight such "
                                    "as 0.7 (up to ",
                                    kMostDecimals, " decimals), found '", one,
                                    "'"));
    const std::string path = one.substr(0, equals);
    for (const MixturePart &other : parts)
      if (other.path == path)
        return invalidArgument(concat("the data ", text, ": ", path,
                                      " has two weights; add them up"));
    parts.push_back({path, *weight});
    begin = end + 1;
  }
  int64_t divisor = 0, block = 0;
  for (const MixturePart &part : parts)
    divisor = std::gcd(divisor, part.share);
  for (MixturePart &part : parts)
    block += part.share /= divisor;
  if (block > kMostMixtureBlock)
    return invalidArgument(
        concat("the data ", text, ": the weights are exact in blocks of ",
               block, " sequences, expected at most ", kMostMixtureBlock,
               "; give them fewer decimals"));
  return parts;
}

Mixture::Mixture(const std::vector<MixturePart> &parts, const uint64_t *seed)
    : begins{0}, isShuffled(seed) {
  for (const MixturePart &part : parts)
    begins.push_back(begins.back() + part.share);
  // Parts draw their windows by the seed itself.
  if (seed)
    this->seed = ~*seed;
}

Mixture::Place Mixture::at(int64_t position) const {
  const int64_t size = begins.back();
  const int64_t block = position / size;
  int64_t element = position % size;
  if (isShuffled)
    element = optimus_support::permuted(element, size, seed, block);
  const std::size_t part =
      std::upper_bound(begins.begin(), begins.end(), element) - begins.begin() -
      1;
  return {part, block * shareOf(part) + element - begins[part]};
}
