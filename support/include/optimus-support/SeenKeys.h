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
/// documents `position` is `index`. With a `window`, which is not 0, a token
/// sees so many keys at most, the last ones: of window 2
///
///     sees       0 0 1 3 3 4   the first
///
inline KeyRange seenKeys(int64_t index, int64_t position, int64_t length,
                         bool causal, int64_t window = 0) {
  int64_t reach = std::clamp<int64_t>(position, 0, index);
  if (window != 0)
    reach = std::min(reach, window - 1);
  return {index - reach, causal ? std::min(index + 1, length) : length};
}

/// The keys that the query at `position` sees in a cache. Key j is at position
/// j, and the first `length` are filled: of these it sees those up to its own. A
/// query at a negative position sees none.
inline KeyRange seenCachedKeys(int64_t position, int64_t length,
                               int64_t window = 0) {
  if (position < 0)
    return {0, 0};
  return seenKeys(position, position, length, /*causal=*/true, window);
}

/// Of the pairs of a query and a key in causal attention to `seq` tokens, the
/// share that a window leaves.
inline double windowShare(int64_t seq, int64_t window) {
  if (window == 0 || window >= seq)
    return 1;
  const auto all = static_cast<double>(seq), seen = static_cast<double>(window);
  return seen * (2 * all - seen + 1) / (all * (all + 1));
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_SEENKEYS_H
