//===- HelpText.cpp - Lines of --help -------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/HelpText.h"

#include <sstream>

std::string optimus_support::describeFlag(std::string_view flag,
                                          std::string_view text) {
  constexpr size_t kColumn = 28, kMost = 80;
  const std::string newLine = "\n" + std::string(kColumn, ' ');
  std::string result = "  " + std::string(flag);
  if (result.size() + 2 > kColumn)
    result += newLine;
  else
    result.append(kColumn - result.size(), ' ');
  size_t at = kColumn;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word; at += word.size()) {
    if (at != kColumn && at + 1 + word.size() > kMost) {
      result += newLine;
      at = kColumn;
    } else if (at != kColumn) {
      result += " ";
      ++at;
    }
    result += word;
  }
  return result + "\n";
}
