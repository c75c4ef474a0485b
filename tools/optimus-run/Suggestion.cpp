//===- Suggestion.cpp - What a misspelt word may mean ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suggestion.h"

#include <algorithm>
#include <vector>

namespace optimus_run {

/// How many single letters to insert, leave out or change, or neighbours to
/// exchange, make `b` of `a`.
static std::size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<std::vector<std::size_t>> table(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      table[i][j] =
          std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                    table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

std::string didYouMean(const std::string &word,
                       std::span<const std::string> words) {
  // Of an option, the letters count.
  auto letters = [](const std::string &text) {
    return text.substr(std::min(text.find_first_not_of('-'), text.size()));
  };
  const std::string typed = letters(word);
  // A word much longer than any that there is would take long to compare.
  if (typed.empty() || typed.size() > 64)
    return "";
  const std::string *nearest = nullptr;
  std::size_t least = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string &candidate : words) {
    std::string meant = letters(candidate);
    std::size_t distance =
        typed.size() > 1 && meant.starts_with(typed) ? 0
                                                     : editDistance(typed, meant);
    if (distance < least) {
      least = distance;
      nearest = &candidate;
    }
  }
  return nearest ? "; did you mean `" + *nearest + "`?" : "";
}

} // namespace optimus_run
