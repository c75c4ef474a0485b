//===- CachePages.h - Pages of a cache of keys and values -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cache of pages is a pool: [slots, a slot's share, …], of whole pages. A
// table [slots, pages of a context] says where the positions of each slot are.
// Its entries count from the first page of the slot's own share, and so mean
// the same wherever slots are shared out among ranks:
//
//     slots of 2 pages     0 0 1 1 2 2
//     page of the pool     0 1 2 3 4 5
//     entry of slot 1     -2 -1 0 1 2 3
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_CACHEPAGES_H
#define OPTIMUS_SUPPORT_CACHEPAGES_H

#include "optimus-support/Sizes.h"

#include <cstdint>

namespace optimus_support {

/// Positions of a page: those of a block of keys in attention.
inline constexpr int64_t kPageTokens = 64;

/// Pages that hold so many tokens.
inline constexpr int64_t pagesFor(int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

/// Rows of keys that an attention has: of the tokens, of caches, or of a pool
/// of pages. The last two are 0 where there are none.
inline CheckedSize attentionKeys(int64_t batch, int64_t seq, int64_t capacity,
                                 int64_t pool) {
  if (pool != 0)
    return CheckedSize(pool) * kPageTokens;
  return CheckedSize(batch) * (capacity != 0 ? capacity : seq);
}

/// Entries of an attention's table of pages.
inline CheckedSize attentionPages(int64_t batch, int64_t capacity) {
  return CheckedSize(batch) * (capacity / kPageTokens);
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_CACHEPAGES_H
