//===- DeviceScratch.h - What a processor holds besides plans ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs plan all memory but the scratch of a device's threads, whose number
// is known only when the programs run. Here is how much each of them holds at
// most: the compiler and the runtime report it, and the device keeps to it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_DEVICESCRATCH_H
#define OPTIMUS_SUPPORT_DEVICESCRATCH_H

#include "optimus-support/Sizes.h"

#include <algorithm>

namespace optimus_support {

/// Keys and queries are taken in blocks of so many tokens; rows of a head are
/// padded to whole vectors, of this many elements at most.
inline constexpr int64_t kAttentionBlock = 64, kMostLanes = 16;

/// Rounded up to a whole number of units; what does not fit stays so.
inline CheckedSize roundUp(CheckedSize size, int64_t unit) {
  const CheckedSize sum = size + (unit - 1);
  return sum.get() ? CheckedSize(*sum.get() / unit * unit) : sum;
}

/// Bytes that a device holds at most: of each of its threads, and of all.
struct DeviceScratch {
  int64_t perThread = 0, shared = 0;

  int64_t bytes(int64_t threads) const { return threads * perThread + shared; }
  /// What either needs.
  void include(const DeviceScratch &other) {
    perThread = std::max(perThread, other.perThread);
    shared = std::max(shared, other.shared);
  }
};

/// A product C[m,n] = A[m,k] B[k,n] whose sizes fit.
struct ProductShape {
  int64_t m, n, k;
  bool transA = false;
  /// Whether it adds a bias and C itself.
  bool addsBiasAndC = false;
};

/// What oneDNN's scratchpad has at most in a product. A thread has a block of A
/// and one of B, where these do not lie as they are multiplied, blocks of C
/// before they are stored, and what says where they are: blocks have at most
/// 256 rows of A, 64 columns of B and 1024 of k, but all of k where there are
/// few rows; up to 16 of C are open. What is added to C together with a bias is
/// computed apart; with A transposed each thread may have all of it.
inline DeviceScratch productScratch(const ProductShape &d) {
  constexpr int64_t size = sizeof(float), places = 1024, fewRows = 64;
  const int64_t rows = std::min<int64_t>(d.m, 256);
  const int64_t depth =
      (d.m <= fewRows ? d.k : std::min<int64_t>(d.k, 1024)) + 16;
  const int64_t cols = std::min<int64_t>(d.n, 960) + 64;
  DeviceScratch scratch{
      (rows * depth + 64 * depth + rows * cols + places) * size, 0};
  if (d.addsBiasAndC)
    (d.transA ? scratch.perThread : scratch.shared) +=
        (d.m * d.n + places) * size;
  return scratch;
}

/// The rows, columns and depth of the blocks that a product of narrow factors
/// is made of; of any depth where factors are not widened.
inline constexpr int64_t kNarrowRows = 1024, kNarrowCols = 2048,
                         kNarrowDepth = 2048;

/// Bytes that all threads hold for a product of narrow factors besides: blocks
/// of both in f32, on processors that multiply only f32, and one of a narrow
/// result before it is rounded.
inline int64_t narrowProductScratchBytes(const ProductShape &d,
                                         bool isNarrowResult,
                                         bool widens = true) {
  const int64_t rows = std::min(d.m, kNarrowRows),
                cols = std::min(d.n, kNarrowCols),
                depth = widens ? std::min(d.k, kNarrowDepth) : 0;
  return int64_t(sizeof(float)) *
         (rows * depth + depth * cols + (isNarrowResult ? rows * cols : 0));
}

/// Columns that are taken at a time of a B [k,n] in blocks of few bits: what
/// they are in f32 stays in a core's cache.
inline constexpr int64_t blockCols(int64_t k) {
  constexpr int64_t elements = 1 << 18, unit = 16, most = 256;
  return std::clamp(elements / std::max<int64_t>(k, 1) / unit * unit, unit,
                    most);
}

/// The same for a B in blocks of few bits: columns of it in f32, a block of the
/// result, and of A where that is narrow.
inline int64_t blockProductScratchBytes(const ProductShape &d, bool isNarrowA) {
  const int64_t rows = std::min(d.m, kNarrowRows),
                cols = std::min(d.n, blockCols(d.k));
  return int64_t(sizeof(float)) *
         ((isNarrowA ? rows * d.k : 0) + d.k * cols + rows * cols);
}

/// The most rows of products that read B once, whatever their number.
inline constexpr int64_t kMostOfFewRows = 16;

/// Bytes of the narrow A of such a product, in f32.
inline int64_t wideRowsBytes(const ProductShape &d) {
  return d.m <= kMostOfFewRows ? int64_t(sizeof(float)) * d.m * d.k : 0;
}

/// Bytes of the copy of A that a product of narrow factors reads where A is
/// transposed: none where that gains nothing, because the product has few
/// columns, or A is far larger than a cache.
inline int64_t transposedCopyBytes(const ProductShape &d) {
  constexpr int64_t size = 2, fewestCols = 256, most = int64_t(1) << 23;
  const CheckedSize bytes = CheckedSize(d.m) * d.k * size;
  return d.transA && d.n >= fewestCols && bytes.isAtMost(most) ? *bytes.get()
                                                               : 0;
}

/// The operands of a head of attention, and of its gradient, that are in f32
/// while the head is computed if they are narrow.
inline constexpr int64_t kWideAttentionOperands = 4, kWideGradientOperands = 8;

/// What a head of attention holds, or of its gradient.
struct AttentionScratchShape {
  int64_t seq, headDim;
  bool isGradient, isNarrow;
  bool hasFirstKeys; ///< where there are positions or a window
  int64_t capacity = 0; ///< of a cache; 0: keys are those of the tokens
};

/// Bytes that a thread holds for attention at most: copies of a head, some of
/// them transposed, blocks of scores, sums of rows, narrow operands in f32, and
/// the first key of each row that has one, and the end of a
/// cache's.
inline CheckedSize attentionScratchBytes(const AttentionScratchShape &shape) {
  const auto [tokens, headDim, isGradient, isNarrow, hasFirstKeys, capacity] =
      shape;
  const int64_t seq = std::max(tokens, capacity);
  constexpr int64_t block = kAttentionBlock;
  const CheckedSize rows = roundUp(seq, block);
  const CheckedSize width = roundUp(headDim, kMostLanes);
  const CheckedSize copy = CheckedSize(seq) * width, scores = block * block;
  const CheckedSize elements =
      isGradient ? CheckedSize(4) * copy + CheckedSize(2) * scores +
                       CheckedSize(4 * block) * width + CheckedSize(2) * rows
                 : rows * width + copy + scores + CheckedSize(block) * width +
                       3 * block;
  const int64_t operands = !isNarrow    ? 0
                           : isGradient ? kWideGradientOperands
                                        : kWideAttentionOperands;
  return (elements + (isNarrow ? kMostLanes : 0) +
          (hasFirstKeys ? roundUp(seq, kMostLanes) : CheckedSize(0)) +
          (capacity != 0 ? roundUp(seq, kMostLanes) : CheckedSize(0)) +
          CheckedSize(operands) *
              roundUp(CheckedSize(seq) * headDim, kMostLanes)) *
         int64_t(sizeof(float));
}

/// Bounds a device's scratch for commands with valid sizes, each by itself.
class ScratchBound {
public:
  void product(const ProductShape &shape, bool hasNarrowFactors,
               bool hasNarrowResult, bool hasFewBits = false) {
    products.include(productScratch(shape));
    if (hasFewBits) {
      blocks = std::max({blocks, wideRowsBytes(shape),
                         blockProductScratchBytes(shape, hasNarrowFactors)});
      return;
    }
    if (!hasNarrowFactors)
      return;
    blocks = std::max({blocks, wideRowsBytes(shape),
                       narrowProductScratchBytes(shape, hasNarrowResult)});
    copies = std::max(copies, transposedCopyBytes(shape));
  }
  void attention(const AttentionScratchShape &shape) {
    // Operands are as large.
    heads = std::max(heads, attentionScratchBytes(shape).get().value_or(0));
  }
  DeviceScratch get() const {
    return {products.perThread + heads, products.shared + blocks + copies};
  }

private:
  DeviceScratch products;
  int64_t blocks = 0, copies = 0, heads = 0;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_DEVICESCRATCH_H
