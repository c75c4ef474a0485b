//===- JsonRows.h - Rows of numbers as JSON ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_JSONROWS_H
#define OPTIMUS_RUNTIME_PROFILE_JSONROWS_H

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace optrt {

/// Writes rows of whole numbers, as in [[0,120],[150,400]]. SQLite stores them
/// as one such text far faster than one by one, and its JSON functions read
/// them.
class JsonRows {
public:
  void clear() { used = 0; }

  template <typename... Numbers>
  void add(Numbers... numbers) {
    // A sign, 19 digits and a comma each, and what is around them.
    constexpr std::size_t kMostOfANumber = 21, kAround = 3;
    constexpr std::size_t kMost = sizeof...(numbers) * kMostOfANumber + kAround;
    if (text.size() < used + kMost)
      text.resize(2 * text.size() + kMost);
    char *to = text.data() + used;
    *to++ = used == 0 ? '[' : ',';
    *to++ = '[';
    ((to = std::to_chars(to, to + kMostOfANumber, int64_t{numbers}).ptr,
      *to++ = ','),
     ...);
    to[-1] = ']';
    used = to - text.data();
  }

  /// All since clear(), until the next call; empty where there is none.
  std::string_view get() {
    if (used == 0)
      return {};
    text[used] = ']';
    return {text.data(), used + 1};
  }

private:
  /// Keeps its memory for the next rows.
  std::vector<char> text;
  std::size_t used = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_JSONROWS_H
