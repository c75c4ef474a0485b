//===- WeightBlocks.h - How packed weights are held -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// B [k,n] of products in words of 32 bits: blocks of few bits, or panels of
// bf16.
//
// A block has 32 elements of a column, next to each other: integers with one
// scale in f16. Values are those of GGUF's Q8_0 and Q4_0, to the bit:
//
//   int8: scale = max |x| / 127,           integer = round(x / scale)
//   int4: scale = (x of the largest |x|) / -8,
//         integer = min(15, trunc(x / scale + 8.5)) - 8
//
// with x / scale as a product with 1 / scale in f32, the sum with 8.5 rounded
// once, halves rounded away from zero, and the scale rounded to f16 afterwards.
//
// So an element x and its value v = q s, an integer times the scale, differ by
//
//   |x - v| <= c (|s| + d) + |q| d,   d = max(2^-11 (1 + 2^-10) |s|, 2^-25)
//
// d is the error of a scale in f16, and c that of an integer: 1/2, and 2^-16
// for two roundings of f32 before. Of int4 q = 7 stands for all up to 8 scales,
// so there it is 1 + 2^-16. Hence the error of a product: a sum of x_k v_k is
// off by at most the sum of |x_k| times the bound of element k, beside the
// rounding of any sum in f32.
//
// Blocks lie in panels of 64 columns, the last one of as many as are left,
// padded by zeros to a multiple of 16. Within a panel those of the first 32
// rows of k come first: their integers, a row of all columns behind the other,
// and then the scales. Of int4, byte row i holds two rows, i in its low bits
// and i + 16, each number plus 8. So a thread reads a panel from its begin to
// its end, with a column in each lane of its vectors.
//
// A panel of bf16 has 64 columns, too, each element rounded to the nearest
// bf16, half-way to even. A word holds two rows of a column, the first in its
// low bits; words of two rows follow each other, and so do pairs of rows. Rows
// are padded to a multiple of 32, and columns to whole panels, by zeros.
// Processors with products of pairs of bf16 read it as it lies (BA16a64b2a of
// oneDNN); on others a word is two elements in f32 by an instruction each.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_WEIGHTBLOCKS_H
#define OPTIMUS_SUPPORT_WEIGHTBLOCKS_H

#include "optimus-support/Sizes.h"
// The enumeration itself: schema/weight_blocks.fbs.
#include "optimus-support/weight_blocks_generated.h"

#include <cstdint>
#include <string_view>

namespace optimus_support {

/// As exec and --weights spell them.
constexpr std::string_view toString(WeightBlocks blocks) {
  constexpr std::string_view names[] = {"none", "int8", "int4", "bf16"};
  return names[static_cast<int>(blocks)];
}

/// Whether they are integers with scales.
inline constexpr bool isFewBits(WeightBlocks blocks) {
  return blocks == WeightBlocks::Int8 || blocks == WeightBlocks::Int4;
}

/// Elements of a block.
inline constexpr int64_t kBlockElements = 32;

/// Columns of a panel, and of bf16 the unit of its rows.
inline constexpr int64_t kPanelCols = 64, kPanelRows = 32;
/// Of few bits, a panel has a multiple of so many columns.
inline constexpr int64_t kColumnUnit = 16;

/// Where blocks of B [k,n] lie.
struct BlockLayout {
  WeightBlocks blocks;
  int64_t k, n;

  /// Whether so many rows can be held: of few bits, a multiple of
  /// kBlockElements.
  bool takesRows() const {
    return !isFewBits(blocks) || k % kBlockElements == 0;
  }

  /// Words of a panel.
  CheckedSize panelWords() const {
    const CheckedSize rows = CheckedSize(k) + (kPanelRows - 1);
    return rows.get() ? CheckedSize(*rows.get() / kPanelRows) *
                            (kPanelRows / 2 * kPanelCols)
                      : rows;
  }

  // Of few bits:

  /// Bytes of a block's integers.
  int64_t integerBytes() const {
    return blocks == WeightBlocks::Int8 ? kBlockElements : kBlockElements / 2;
  }
  int64_t blocksOfColumn() const { return k / kBlockElements; }
  /// Columns of the panel that has a column, padding included.
  int64_t colsOfPanel(int64_t col) const {
    const int64_t left = n - col / kPanelCols * kPanelCols;
    return left >= kPanelCols
               ? kPanelCols
               : (left + kColumnUnit - 1) / kColumnUnit * kColumnUnit;
  }
  /// Where the blocks of some rows begin in a column's panel, in bytes.
  int64_t blocksAt(int64_t col, int64_t block) const {
    const int64_t first = col / kPanelCols * kPanelCols;
    return (first * blocksOfColumn() + colsOfPanel(col) * block) *
           (integerBytes() + 2);
  }
  /// Where one of these has its first integer, and its scale; further integers
  /// are colsOfPanel() apart.
  int64_t integersAt(int64_t col, int64_t block) const {
    return blocksAt(col, block) + col % kPanelCols;
  }
  int64_t scaleAt(int64_t col, int64_t block) const {
    return blocksAt(col, block) + colsOfPanel(col) * integerBytes() +
           2 * (col % kPanelCols);
  }
  /// All of it, in words of 32 bits.
  CheckedSize words() const {
    if (blocks == WeightBlocks::BF16) {
      const CheckedSize cols = CheckedSize(n) + (kPanelCols - 1);
      return cols.get() ? panelWords() * (*cols.get() / kPanelCols) : cols;
    }
    const CheckedSize cols = CheckedSize(n) + (kColumnUnit - 1);
    return cols.get()
               ? CheckedSize(*cols.get() / kColumnUnit) * (k / kBlockElements) *
                     (kColumnUnit * (integerBytes() + 2) / 4)
               : cols;
  }
};

/// Writes the blocks of columns [begin, end) of B, whose element [i, j] is
/// source[i * rowStride + j * colStride].
void writeBlocks(const BlockLayout &layout, const float *source,
                 int64_t rowStride, int64_t colStride, int64_t begin,
                 int64_t end, void *to);

/// Elements [first, last) of a column: of few bits, from a multiple of
/// kBlockElements to another, and then integers times scales, exactly.
void readBlocks(const BlockLayout &layout, const void *from, int64_t column,
                int64_t first, int64_t last, float *to);

/// The same, with how far each element's value may be from what it was made of.
void readBlocks(const BlockLayout &layout, const void *from, int64_t column,
                int64_t first, int64_t last, float *to, double *bounds);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_WEIGHTBLOCKS_H
