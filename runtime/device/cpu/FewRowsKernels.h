//===- FewRowsKernels.h - Products of few rows ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// C[m,n] = A[m,k] B[k,n] with few rows of A: a token for each slot. The time is
// that of reading B, and so B is read once, from where it lies, by all threads.
//
// An element of C is one sum, whatever m is and whoever computes it, so that a
// text's bits depend on no other. Where B lies as [k,n] or packed the sum goes
// from the first product to the last; where it lies as [n,k], each lane of a
// vector has its own, and the lanes are added by halves; and so where B is in
// blocks of few bits. In panels of bf16 (WeightBlocks.h) it is as in [k,n].
//
// As AttentionKernels.h, this is all that the instruction sets' translation
// units include.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_FEWROWSKERNELS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_FEWROWSKERNELS_H

#include <stdint.h>

namespace optrt {

/// The most rows of A: see DeviceScratch.h.
inline constexpr int64_t kFewRows = 16;
/// The columns of C that a thread computes at a time.
inline constexpr int64_t kFewRowsCols = 64;

/// Elements of a block of few bits: see WeightBlocks.h.
inline constexpr int64_t kFewBitsBlock = 32;

/// A column of a B in blocks of few bits.
struct FewBitsColumn {
  int64_t blocks;
  int64_t bits; ///< 8 or 4
  const void *integers;
  const uint16_t *scales;
};

/// Columns of a product.
struct FewRowsProduct {
  int64_t m, k;
  int64_t cols;      ///< of this part of C, at most kFewRowsCols
  const float *const *a; ///< where each row of [m,k] begins
  const void *b;         ///< of the first column, as `isTransposed` says
  int64_t ldb;           ///< in elements
  bool isTransposed; ///< B lies as [n,k], rows `ldb` apart; else as [k,n]
  bool isNarrow;     ///< B is bf16; else f32
  bool isPaired = false; ///< B is a panel of bf16, `ldb` words a pair of rows
  int64_t bits = 0;  ///< of blocks, 8 or 4, whose integers are `b`; else 0
  const uint16_t *scales = nullptr; ///< of the blocks
};

/// One query head of one token that sees keys of a cache: at least one.
struct CachedToken {
  int64_t keys, headDim;
  int64_t stride;    ///< from a key, or value, to the next one's, in elements
  const float *q;    ///< [headDim]
  const void *k, *v; ///< of the first key that is seen
  bool isNarrow;     ///< k and v are bf16; else f32
  float *out, *lse; ///< [headDim], and the logarithm of the sum of exponentials
  float *scratch;   ///< an element a key, up to whole cache lines
};

/// The kernels for one instruction set.
struct FewRowsKernels {
  /// Writes a part of C, [m,cols], to `sums`, rows of kFewRowsCols elements
  /// that begin at a cache line.
  void (*multiply)(const FewRowsProduct &, float *sums);
  void (*attend)(const CachedToken &);
  /// Writes the elements of a column.
  void (*widen)(const FewBitsColumn &, float *to);
};

extern const FewRowsKernels fewRowsKernelsBaseline;
#ifdef __x86_64__
extern const FewRowsKernels fewRowsKernelsV3;
extern const FewRowsKernels fewRowsKernelsV4;
#endif

/// The fastest kernels that this processor can run.
const FewRowsKernels &bestFewRowsKernels();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_FEWROWSKERNELS_H
