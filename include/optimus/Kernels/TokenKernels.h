//===- TokenKernels.h - Rows by token, and by position ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table holds rows [first, first + rows) of the whole; tokens outside look up
// zeros and receive nothing.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_TOKENKERNELS_H
#define OPTIMUS_KERNELS_TOKENKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// table[rows*cols], i32 tokens[count] -> result[count*cols]; scalar first.
struct Embedding {
  int64_t count, rows, cols;

  OPTIMUS_KERNEL("embedding", count, rows, cols);
};

/// The same of a table in blocks of 8 or 4 bits along its rows: a packed B of
/// `cols` rows and `rows` columns (optimus-support/WeightBlocks.h), in i32.
struct EmbeddingOfBlocks {
  int64_t count, rows, cols, bits;

  OPTIMUS_CHECKED_KERNEL("embedding_of_blocks");
};

/// dy[count*cols], i32 tokens[count] -> table[rows*cols]; scalar first. Adds to
/// what the table holds, or to zeros if `zero`; nothing where a token is `pad`.
/// Tokens are added in their order: by columns, each with a pass over all
/// tokens, or if `byRows` by rows of the table, each with a search for its
/// tokens.
struct EmbeddingGrad {
  int64_t count, rows, cols;
  bool zero;
  std::optional<int64_t> pad = std::nullopt;
  bool byRows = false;

  OPTIMUS_CHECKED_KERNEL("embedding_grad");
};

/// i32 tokens[rows*cols], with `masked` i32 targets[rows*cols] -> i32
/// result[rows]: one more than the last column below `real` with a token other
/// than `pad` or a target that is not negative, 1 at least; scalar real.
struct Lengths {
  int64_t rows, cols, pad;
  bool masked = false;

  OPTIMUS_CHECKED_KERNEL("lengths");
};

/// rows[batch*seq*cols], i32 positions[batch*seq] ->
/// cache[batch*capacity*cols], which is updated: row j of sequence i becomes
/// that at its position. Negative positions, and those of capacity and more,
/// have no place. With i32 pages[batch*pages] a sequence has so many pages,
/// with positions below 64 times them (optimus-support/CachePages.h);
/// `capacity` is its own share of the cache, and entries beyond the cache have
/// no place. With a `stride` rows lie so far apart.
struct CacheAppend {
  int64_t batch, seq, capacity, cols;
  std::optional<int64_t> pages = std::nullopt, stride = std::nullopt;

  OPTIMUS_CHECKED_KERNEL("cache_append");
};

/// rows[count*cols], i32 positions[count], (i32 pages[slots*pages]), i32
/// slot[1]
/// -> cache[slots*capacity*cols], which is updated: each row becomes that at
/// its position of the slot; scalar first, the number of the cache's first
/// slot. Positions, pages and the stride are as of CacheAppend, and slots
/// beyond the cache have no place.
struct SlotAppend {
  int64_t count, slots, capacity, cols;
  std::optional<int64_t> pages = std::nullopt, stride = std::nullopt;

  OPTIMUS_CHECKED_KERNEL("slot_append");
};

/// x[entries*rows*cols], i32 index[1], with `hasLength` i32 length[1] ->
/// result[rows*cols]: the entry of that index, with zeros for rows from length
/// on, or for all where the index is not in [first, first + entries). With a
/// `share` of whole pages, x[entries*share*cols] is a cache of them, and
/// i32 pages[entries*rows/64] say where an entry's rows are, 0 for those beyond
/// the cache. Scalar first.
struct Take {
  int64_t entries, rows, cols;
  bool hasLength = false;
  std::optional<int64_t> share = std::nullopt;

  OPTIMUS_CHECKED_KERNEL("take");
};

/// x[batch*seq*heads*dim], (positions[batch*seq]) -> result, the same; in
/// place. Positions are from 0 to seq - 1, or else those of tokens, from 0 to
/// capacity - 1 and others clamped. Of each
/// token the first `turned` heads are rotated, and of each of those the first
/// `channels`. Cosines and sines are a constant table of a row for each
/// position, one for all kernels that need it.
struct Rotary {
  int64_t batch, seq, heads, dim;
  double theta;
  bool inverse;
  int64_t channels = dim, turned = heads;
  bool hasPositions = false;
  /// Rows of the table; seq if absent.
  std::optional<int64_t> capacity = std::nullopt;
  /// The angle of each pair at position 1; by theta if there are none.
  SmallVector<double> frequencies = {};

  OPTIMUS_CHECKED_KERNEL("rotary");
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_TOKENKERNELS_H
