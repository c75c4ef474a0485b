//===- Values.h - Checks of options' values ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_COMMANDLINE_VALUES_H
#define OPTIMUS_TOOLS_COMMANDLINE_VALUES_H

#include "optimus-support/NearestName.h"
#include "optimus-support/Status.h"

#include <CLI/App.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace optimus_command_line {

/// A value understood by `values.parse(text)`; `values.expected()` describes
/// such values. With `values.names()`, a misspelt one is recognised.
template <typename Values>
CLI::Validator oneOf(Values values) {
  return CLI::Validator(
      [values](std::string &text) -> std::string {
        if (values.parse(text))
          return "";
        std::string wrong = optimus_support::concat(
            "expected ", values.expected(), ", found ", text);
        if constexpr (requires { values.names(); })
          wrong += optimus_support::didYouMean(text, values.names());
        return wrong;
      },
      "");
}

/// One of some words.
struct Word {
  std::vector<std::string> words;

  const std::vector<std::string> &names() const { return words; }
  std::string expected() const {
    std::string text = words[0];
    for (size_t i = 1; i != words.size(); ++i)
      text += (i + 1 == words.size() ? " or " : ", ") + words[i];
    return text;
  }
  std::optional<std::string> parse(const std::string &text) const {
    if (std::find(words.begin(), words.end(), text) == words.end())
      return std::nullopt;
    return text;
  }
};

/// A number of bytes: 65536, 512MiB, 5GB.
struct ByteCount {
  std::string expected() const {
    return "a size from 1 byte to 4096TB, as 512MiB or 5GB";
  }
  std::optional<int64_t> parse(const std::string &text) const {
    int64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || value < 1)
      return std::nullopt;
    const std::string unit(stop, end);
    const std::pair<const char *, int64_t> units[] = {
        {"", 1},
        {"KB", 1'000},
        {"MB", 1'000'000},
        {"GB", 1'000'000'000},
        {"TB", 1'000'000'000'000},
        {"KiB", int64_t(1) << 10},
        {"MiB", int64_t(1) << 20},
        {"GiB", int64_t(1) << 30},
        {"TiB", int64_t(1) << 40}};
    constexpr int64_t kMost = 4'096'000'000'000'000;
    for (auto [name, bytes] : units)
      if (unit == name && value <= kMost / bytes)
        return value * bytes;
    return std::nullopt;
  }
};

/// A number in [least, most]; `what` says so.
template <typename T>
struct Number {
  std::string what;
  T least, most;

  std::string expected() const { return what; }
  std::optional<T> parse(const std::string &text) const {
    T value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < least || value > most)
      return std::nullopt;
    return value;
  }
};

} // namespace optimus_command_line

#endif // OPTIMUS_TOOLS_COMMANDLINE_VALUES_H
