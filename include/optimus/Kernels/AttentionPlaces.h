//===- AttentionPlaces.h - Where attention finds its rows -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ATTENTIONPLACES_H
#define OPTIMUS_KERNELS_ATTENTIONPLACES_H

#include "optimus/Kernels/AttentionKernels.h"
#include "optimus/Kernels/KernelBuilder.h"

namespace mlir::optimus::kernels {

/// Writes where rows of attention's operands begin, and which of them meet;
/// what all forms of its kernels share.
class AttentionPlaces {
public:
  AttentionPlaces(KernelBuilder &k, const AttentionExtents &extents)
      : k(k), extents(extents) {}

  /// A token of a head of queries or of keys.
  struct Row {
    Value batch, head, token;
  };

  Value divide(Value value, int64_t divisor);
  Value remainder(Value value, int64_t divisor);

  /// The first element of a row, where tokens are `stride` elements apart.
  Value at(const Row &row, int64_t stride) {
    return at(row, stride, extents.seq);
  }
  /// The same where a sequence has so many rows.
  Value at(const Row &row, int64_t stride, int64_t tokens);
  Value atQuery(const Row &row) { return at(row, extents.qStride); }
  Value atKey(const Row &row);
  Value atOut(const Row &row) { return at(row, getOutStride()); }
  int64_t getOutStride() const { return extents.heads * extents.headDim; }
  /// The element of lse and delta.
  Value atRow(const Row &row);

  /// The head of keys that one of queries meets.
  Value getKeyHead(Value head) { return divide(head, extents.getNumShared()); }
  /// How many tokens of a sequence are seen at all, at least one where they are
  /// no cache.
  Value getLength(Value batch);
  /// What positions say of a token.
  Value getPosition(Value batch, Value token);
  /// The first key that a token sees: that of position 0 in its document, or of
  /// its window.
  Value getFirstKey(Value batch, Value token);
  /// Whether a token is `first` or a later one.
  Value isNotBefore(Value token, Value first);
  /// The greatest score and the sum of exponentials of a row without keys, for
  /// a result and an lse of zero. Without lengths, and without positions or
  /// a window, every row sees a key.
  void settle(Num &top, Num &total);
  /// How many keys are seen by queries that come before token `end`.
  Value getNumKeys(Value end, Value length) {
    return extents.causal ? k.minIndex(end, length) : length;
  }

  /// Where the queries end whose windows reach one of so many keys from `key`
  /// on.
  Value getWindowsEnd(Value key, int64_t keys = 1);

protected:
  KernelBuilder &k;
  const AttentionExtents &extents;
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_ATTENTIONPLACES_H
