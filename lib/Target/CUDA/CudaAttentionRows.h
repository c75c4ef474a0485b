//===- CudaAttentionRows.h - Rows of a block of attention -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp has 16 rows of queries, or of keys, for which it keeps sums in
// registers; the block goes through what they meet. Rows beyond the end are
// computed from existing ones, and not stored.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDAATTENTIONROWS_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDAATTENTIONROWS_H

#include "CudaAttention.h"
#include "CudaTiles.h"

#include "optimus/Kernels/AttentionPlaces.h"

namespace mlir::optimus {

/// What the forms of tiled attention share.
class CudaAttentionRows : protected kernels::AttentionPlaces {
public:
  virtual ~CudaAttentionRows() = default;

  /// Writes the body of a kernel.
  void write(kernels::AttentionPart part);

protected:
  using Sums = CudaTiles::Sums;

  CudaAttentionRows(KernelBuilder &k, const kernels::AttentionExtents &extents)
      : AttentionPlaces(k, extents), b(k.getBuilder()), threads(k),
        tiles(k, extents.headDim) {}

  virtual void writeForward() = 0;
  virtual void writeQueryGrad() = 0;
  virtual void writeKeyGrad() = 0;

  /// 64 rows of a head, and the lane's two of them.
  struct Place {
    Value batch, head, begin;
    Value tokens[2];
    /// Those that exist.
    Value clamped[2];
    /// The first keys that these see, if they are queries; null without
    /// positions and window.
    Value firsts[2];

    Row getRow(Value token) const { return {batch, head, token}; }
    Value getEnd(KernelBuilder &k) const {
      return k.addIndex(begin, k.index(kGroupRows));
    }
  };
  Place getPlace(Value number, int64_t heads);
  /// Where the elements of the lane's rows begin.
  Value getBegin(const Place &place, int64_t half, int64_t stride) {
    return at(place.getRow(place.clamped[half]), stride);
  }

  /// Whether a key is seen at all and by this query, which sees none before the
  /// first if there is one.
  Value isSeen(Value key, Value query, Value length, Value first) {
    Value seen = k.less(key, length);
    if (extents.causal)
      seen = k.both(seen, isNotBefore(query, key));
    return first ? k.both(seen, isNotBefore(key, first)) : seen;
  }
  Value isSeen(Value key, const Place &query, int64_t half, Value length) {
    return isSeen(key, query.tokens[half], length, query.firsts[half]);
  }
  /// The same of a query that may not exist.
  Value isSeenBy(Value query, Value key, Value batch, Value length) {
    Value first;
    if (extents.hasFirstKeys())
      first = getFirstKey(batch, k.minIndex(query, k.index(extents.seq - 1)));
    return isSeen(key, query, length, first);
  }
  /// 64 rows of queries.
  Place getQueries(Value number);
  /// Where the keys begin that queries see, in tiles of `rows`. A document's
  /// tokens follow each other, so none sees an earlier one than the first.
  Value getKeysBegin(const Place &queries, int64_t rows);
  /// Where the queries end that see one of these keys.
  Value getQueriesEnd(const Place &keys);
  static Num add(Num a, Num c) { return a + c; }
  Num getZero() { return k.constant(0, k.f32()); }
  /// Writes the sum of exponentials' logarithm of a row of the lane's.
  void storeLse(const Place &place, int64_t half, Num top, Num total);
  /// delta of a row of the lane's, which is written too.
  Num makeDelta(const Place &place, int64_t half);
  /// Writes the lane's two rows.
  void store(ArrayRef<Value> sums, const Place &place, StringRef name,
             int64_t stride, ArrayRef<Num> factors);

  ImplicitLocOpBuilder &b;
  CudaThreads threads;
  CudaTiles tiles;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDAATTENTIONROWS_H
