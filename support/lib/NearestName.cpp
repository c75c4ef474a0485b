//===- NearestName.cpp - What was meant by an unknown name ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/NearestName.h"

#include <algorithm>
#include <cstddef>

using namespace optimus_support;

/// What of a name counts: without the dashes of a flag, and without capitals.
static std::string getLetters(std::string_view text) {
  std::string lower(
      text.substr(std::min(text.find_first_not_of('-'), text.size())));
  for (char &c : lower)
    if (c >= 'A' && c <= 'Z')
      c += 'a' - 'A';
  return lower;
}

/// Damerau's distance, of which each stretch of letters is changed once.
static size_t getDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> table(a.size() + 1,
                                         std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1,
                              table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

std::string
optimus_support::nearestName(std::string_view name,
                             const std::vector<std::string> &known) {
  const std::string typed = getLetters(name);
  // Longer than any name there is, and the table would be large.
  if (typed.size() > 100)
    return "";
  std::string nearest;
  // Who changes every letter makes another name.
  size_t least = std::min((typed.size() + 2) / 3 + 1, typed.size());
  for (const std::string &other : known) {
    const std::string meant = getLetters(other);
    // Of three letters, most are words of their own: gpu is not cpu.
    if (typed.size() <= 3 && meant.size() <= 3 && typed[0] != meant[0])
      continue;
    const bool begins = typed.size() > 1 && meant.starts_with(typed);
    if (size_t distance = begins ? 0 : getDistance(typed, meant);
        distance < least) {
      least = distance;
      nearest = other;
    }
  }
  return nearest;
}

std::string optimus_support::didYouMean(std::string_view name,
                                        const std::vector<std::string> &known,
                                        char quote) {
  std::string nearest = nearestName(name, known);
  return nearest.empty() ? ""
                         : "; did you mean " + (quote + nearest + quote) + "?";
}
