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
// vector has its own, and the lanes are added by halves. In panels of bf16
// (WeightBlocks.h) it is as in [k,n]; in those of few bits each block has a
// sum, which is multiplied by the scale, and these are added from the first on.
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

/// Columns of a panel of B in blocks of few bits: see WeightBlocks.h.
struct FewBitsColumns {
  const void *panel; ///< where its first blocks begin, or some later ones
  int64_t ld;        ///< columns of the panel
  int64_t bits;      ///< 8 or 4
  int64_t blocks;    ///< of each column
  int64_t first, cols;
  int64_t toLd; ///< of the rows that are written, in elements
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
  /// Of a panel of blocks of few bits, 8 or 4, with `ldb` columns; else 0.
  int64_t bits = 0;
};

/// One query head of one token that sees keys of a cache: at least one.
struct CachedToken {
  int64_t keys, headDim;
  int64_t stride;    ///< from a key, or value, to the next one's, in elements
  const float *q;    ///< [headDim]
  const void *k, *v; ///< of the key at position 0
  int64_t first;     ///< position of the first key that is seen
  /// Where they are pages of so many keys: the page of each of the sequence,
  /// counted from k and v, and those that there are, [least, end). Else null.
  const int32_t *pages;
  int64_t pageKeys, leastPage, endPage;
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
  /// Writes their elements, a row of B behind the other.
  void (*widen)(const FewBitsColumns &, float *to);
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
