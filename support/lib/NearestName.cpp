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

static std::string toLower(std::string_view text) {
  std::string lower(text);
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
  // Longer than any name there is, and the table would be large.
  if (name.size() > 100)
    return "";
  std::string nearest;
  // Who changes every letter makes another name.
  size_t least = std::min((name.size() + 2) / 3 + 1, name.size());
  for (const std::string &other : known)
    if (size_t distance = getDistance(toLower(name), toLower(other));
        distance < least) {
      least = distance;
      nearest = other;
    }
  return nearest;
}

std::string optimus_support::didYouMean(std::string_view name,
                                        const std::vector<std::string> &known) {
  std::string nearest = nearestName(name, known);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}
