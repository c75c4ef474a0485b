//===- AttentionKernels.h - Attention and its gradients ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attention as optrt_attention_desc of CommandDescriptors.h says it, for
// targets whose device leaves it to kernels. With S = Q K^T / sqrt(headDim):
//
//   P = exp(S - lse),  out = P V,  delta = rowsum(dout * out)
//   T = P * (dout V^T - delta),  dV = P^T dout,
//   dQ = T K / sqrt(headDim),  dK = T^T Q / sqrt(headDim)
//
// A gradient takes two launches: one for queries, which also writes delta, and
// one for keys and values, with delta as input.
//
// q, k and v, and their gradients, may be parts of one tensor. What is given
// begins with the part's first element and has as many as are needed:
//
//   q, dq          (batch*seq - 1) * qStride + heads*headDim
//   k, v, dk, dv   (batch*keys - 1) * kvStride + kvHeads*headDim
//
// A sequence has seq keys, or those of a cache. Elements in between are left
// alone. out and dout are [batch, seq, heads,
// headDim]; lse and delta are f32 [batch, heads, seq]; lengths and positions,
// if there are any, i32 [batch] and [batch, seq].
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ATTENTIONKERNELS_H
#define OPTIMUS_KERNELS_ATTENTIONKERNELS_H

#include "optimus/Kernels/Kernel.h"

#include "optimus-support/CachePages.h"

namespace mlir::optimus::kernels {

/// The three kernels.
enum class AttentionPart { Forward, QueryGrad, KeyGrad };

/// The parameters of all three.
struct AttentionExtents {
  int64_t batch = 0, seq = 0, heads = 0, kvHeads = 0, headDim = 0;
  /// From a token to the next one, in elements.
  int64_t qStride = heads * headDim, kvStride = kvHeads * headDim;
  bool causal = false, hasLengths = false, hasPositions = false;
  /// How many keys a token sees at most.
  std::optional<int64_t> window = std::nullopt;
  /// How many keys a sequence has, where they are a cache: only forward, with
  /// lengths and positions.
  std::optional<int64_t> capacity = std::nullopt;
  /// How many pages of the cache's there are, as many for each sequence, if it
  /// is of pages; then i32 pages [batch, capacity/64] say where keys are, and a
  /// sequence has one query (optimus-support/CachePages.h).
  std::optional<int64_t> pool = std::nullopt;

  /// Whether tokens see other keys than the sequence's first ones.
  bool hasFirstKeys() const { return hasPositions || window; }
  int64_t getNumKeys() const { return capacity.value_or(seq); }
  int64_t getTokens() const { return batch * seq; }
  /// Rows of k and v, of all sequences.
  int64_t getKeyRows() const {
    return pool ? *pool * optimus_support::kPageTokens : batch * getNumKeys();
  }
  /// What is given of q, of k, and of out.
  int64_t getQSize() const {
    return (getTokens() - 1) * qStride + heads * headDim;
  }
  int64_t getKvSize() const {
    return (getKeyRows() - 1) * kvStride + kvHeads * headDim;
  }
  int64_t getOutSize() const { return getTokens() * heads * headDim; }
  /// Rows of queries: of lse and delta.
  int64_t getRows() const { return getTokens() * heads; }
  /// How many heads of queries share one of keys and values.
  int64_t getNumShared() const { return heads / kvHeads; }
  /// What scores are multiplied by.
  double getScale() const;

  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
};

/// q, k, v, (lengths), (positions), (pages) -> out, lse.
struct Attention {
  AttentionExtents extents;

  OPTIMUS_KERNEL("attention", extents);
};

/// A cache's keys by pieces, so many from position 0 on, where rows are too few
/// to keep a device busy: q, k, v, lengths, positions, (pages) ->
/// parts[rows*pieces*…]. A part has the sum of a piece's values,
/// weighed by exponentials of scores, then the greatest score and the sum of
/// exponentials, and begins at a multiple of four elements.
struct AttentionPieces {
  AttentionExtents extents;
  int64_t keys; ///< of a piece

  int64_t getNumPieces() const;
  int64_t getPartSize() const { return (extents.headDim + 5) / 4 * 4; }
  int64_t getSize() const {
    return extents.getRows() * getNumPieces() * getPartSize();
  }

  OPTIMUS_CHECKED_KERNEL("attention_pieces");
};

/// The parts of rows of queries, added: parts -> out, lse.
struct AttentionOfPieces {
  AttentionExtents extents;
  int64_t keys;

  OPTIMUS_CHECKED_KERNEL("attention_of_pieces");
};

/// dout, q, k, v, out, lse, (lengths), (positions) -> dq, delta.
struct AttentionQueryGrad {
  AttentionExtents extents;

  OPTIMUS_KERNEL("attention_query_grad", extents);
};

/// dout, q, k, v, lse, delta, (lengths), (positions) -> dk, dv, each summed
/// over the heads of queries that share it, in their order; zeros where no
/// token sees a key.
struct AttentionKeyGrad {
  AttentionExtents extents;

  OPTIMUS_KERNEL("attention_key_grad", extents);
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_ATTENTIONKERNELS_H
