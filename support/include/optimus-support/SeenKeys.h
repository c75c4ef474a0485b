//===- SeenKeys.h - Which keys a query of attention sees --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Said once for the interpreters and the engines on processors. Kernels write
// the same in `AttentionPlaces`.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_SEENKEYS_H
#define OPTIMUS_SUPPORT_SEENKEYS_H

#include <algorithm>
#include <cstdint>

namespace optimus_support {

/// A range of keys, by their place in the sequence: [first, end).
struct KeyRange {
  int64_t first, end;

  /// At least 0.
  int64_t size() const { return std::max<int64_t>(end - first, 0); }
};

/// The keys that the query of token `index` sees in a sequence of `length`
/// tokens, the padding not counted. With `causal` these are the token itself
/// and earlier ones, back to the token at position 0 of its document:
/// `position` tokens earlier. Documents follow each other:
///
///     index      0 1 2 3 4 5
///     position   0 1 2 0 1 2
///     sees       0 0 0 3 3 3   the first
///                1 2 3 4 5 6   the end
///
/// Positions that reach beyond the sequence's first token stop there; without
/// documents `position` is `index`.
inline KeyRange seenKeys(int64_t index, int64_t position, int64_t length,
                         bool causal) {
  const int64_t first = index - std::clamp<int64_t>(position, 0, index);
  return {first, causal ? std::min(index + 1, length) : length};
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_SEENKEYS_H
