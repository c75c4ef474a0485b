//===- Nesting.cpp - How deep a text is nested ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Nesting.h"

#include <algorithm>

using namespace optimus_support;

/// Where the string that begins at `at` has its closing quote; it may lack it.
static size_t endOfString(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    if (text[at] == '\\')
      ++at;
  return at;
}

Status optimus_support::checkNesting(std::string_view text,
                                     const std::string &name, int most) {
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
    case '"':
      at = endOfString(text, at);
      break;
    case '/':
      if (text.substr(at, 2) == "//")
        at = std::min(text.find('\n', at), text.size());
      break;
    case '-':
      if (text.substr(at, 2) == "->")
        ++at;
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (text.substr(at, 2) == "<=")
        break;
      if (++depth > most)
        return invalidArgument(concat(
            name, ":", std::count(text.begin(), text.begin() + at, '\n') + 1,
            ": brackets are nested deeper than ", most, " levels"));
      break;
    case ')':
    case ']':
    case '}':
    case '>':
      // A comparison, or a mistake for the parser to find.
      depth = std::max(0, depth - 1);
      break;
    }
  }
  return okStatus();
}
