//===- Work.h - What an operation computes ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_WORK_H
#define OPTIMUS_PRICES_WORK_H

#include <cstdint>
#include <optional>

namespace optimus_prices {

/// What an operation computes on one rank, as far as its time depends on it.
struct Work {
  enum Kind {
    /// It takes as long as its operands and results move through memory.
    Traffic,
    /// A product of matrices, C[m,n] = op(A)[m,k]·op(B)[k,n].
    Product,
    /// Attention, whose products are fused.
    Attention,
    /// op(B)[k,n] of products, copied into the layout that they read.
    Packing,
  };
  Kind kind = Traffic;
  /// The extents of a product, and which factors are stored transposed; of
  /// packing those of B.
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  /// Whether a bias is added in it.
  bool bias = false;
  /// Whether rows of a matrix lie farther apart than they are long, as those of
  /// a part of a wider one.
  bool gaps = false;
  /// Floating-point operations of attention, and what a head of it looks like.
  double flops = 0;
  int64_t seq = 0, headDim = 0;
  bool causal = false, gradient = false;

  /// Finds gaps by the elements from a row of a product's A, B and C to the
  /// next one. A packed B has its own layout, and no such number.
  void findGaps(int64_t lda, std::optional<int64_t> ldb, int64_t ldc) {
    gaps = lda != (transA ? m : k) || (ldb && *ldb != (transB ? k : n)) ||
           ldc != n;
  }
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_WORK_H
