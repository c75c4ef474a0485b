//===- WeightBlocks.cpp - How packed weights are held ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/WeightBlocks.h"

#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace optimus_support {

/// Columns that are written at a time: as many lanes of loops over them, which
/// become vector code on any processor. Those next to each other in a row share
/// cache lines.
static constexpr int64_t kTogether = 16;
static_assert(kPanelCols % kTogether == 0);

/// Moves four rows of four columns, `ld` apart, to rows of kTogether.
static void transpose(const float *from, int64_t ld, float *to) {
  typedef float Four __attribute__((vector_size(16)));
  Four cols[4];
  for (int64_t j = 0; j < 4; ++j)
    std::memcpy(&cols[j], from + j * ld, sizeof(Four));
  for (int half = 0; half < 2; ++half) {
    // Two rows of the first two columns, and of the others.
    const Four first =
        half == 0 ? __builtin_shufflevector(cols[0], cols[1], 0, 4, 1, 5)
                  : __builtin_shufflevector(cols[0], cols[1], 2, 6, 3, 7);
    const Four others =
        half == 0 ? __builtin_shufflevector(cols[2], cols[3], 0, 4, 1, 5)
                  : __builtin_shufflevector(cols[2], cols[3], 2, 6, 3, 7);
    const Four rows[] = {__builtin_shufflevector(first, others, 0, 1, 4, 5),
                         __builtin_shufflevector(first, others, 2, 3, 6, 7)};
    for (const Four &row : rows) {
      std::memcpy(to, &row, sizeof(Four));
      to += kTogether;
    }
  }
}

namespace {
/// Some columns of a block's rows, with zeros beyond the last one.
struct Tile {
  Tile(const float *source, int64_t rowStride, int64_t colStride, int64_t rows,
       int64_t cols) {
    if (rowStride == 1 && rows == kBlockElements && cols == kTogether) {
      for (int64_t i = 0; i < rows; i += 4)
        for (int64_t j = 0; j < cols; j += 4)
          transpose(source + i + j * colStride, colStride, &x[i][j]);
      return;
    }
    std::memset(x, 0, sizeof(x));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        x[i][j] = source[i * rowStride + j * colStride];
  }

  float x[kBlockElements][kTogether];
};
} // namespace

static_assert(kBlockElements == kPanelRows);

/// For each column its first element of the largest magnitude, or none that is
/// a number, if the column has one.
static void findLargest(const Tile &tile, float *largest) {
  int32_t most[kTogether] = {};
  std::fill_n(largest, kTogether, 0.f);
  // Magnitudes have the order of their bits.
  for (const auto &row : tile.x)
    for (int64_t j = 0; j < kTogether; ++j) {
      const int32_t size = std::bit_cast<int32_t>(row[j]) & 0x7FFFFFFF;
      largest[j] = size > most[j] ? row[j] : largest[j];
      most[j] = std::max(most[j], size);
    }
  for (int64_t j = 0; j < kTogether; ++j)
    largest[j] = most[j] < 0x7F800000 ? largest[j] : NAN;
}

/// Writes the integers of so many columns, in rows `ld` apart; all scales. With
/// an element that is no number, the scale is none either, and integers do not
/// count.
static void writeInt8(const Tile &tile, int64_t cols, uint8_t *to, int64_t ld,
                      float *scales) {
  float inverses[kTogether];
  findLargest(tile, scales);
  for (int64_t j = 0; j < kTogether; ++j) {
    scales[j] = std::fabs(scales[j]) / 127;
    inverses[j] = scales[j] != 0 ? 1 / scales[j] : 0;
  }
  for (const auto &row : tile.x) {
    uint8_t integers[kTogether];
    for (int64_t j = 0; j < kTogether; ++j) {
      const float value =
          std::max(-128.f, std::min(127.f, row[j] * inverses[j]));
      // Rounds halves away from zero: twice the value is exact.
      const auto twice = static_cast<int32_t>(value * 2);
      const int32_t sign = twice >> 31, size = (twice ^ sign) - sign;
      integers[j] = static_cast<uint8_t>(((size + 1) >> 1 ^ sign) - sign);
    }
    std::copy_n(integers, cols, to);
    to += ld;
  }
}

static void writeInt4(const Tile &tile, int64_t cols, uint8_t *to, int64_t ld,
                      float *scales) {
  float inverses[kTogether];
  findLargest(tile, scales);
  for (int64_t j = 0; j < kTogether; ++j) {
    scales[j] /= -8;
    inverses[j] = scales[j] != 0 ? 1 / scales[j] : 0;
  }
  auto round = [&](int64_t i, int64_t j) {
    // As by std::fma(): the product is exact in f64, and so is the sum where
    // its integer is in doubt, from a quarter on.
    const auto sum =
        static_cast<float>(double(tile.x[i][j]) * double(inverses[j]) + 8.5);
    return static_cast<int32_t>(std::max(0.f, std::min(15.f, sum)));
  };
  constexpr int64_t half = kBlockElements / 2;
  for (int64_t i = 0; i < half; ++i, to += ld) {
    uint8_t integers[kTogether];
    for (int64_t j = 0; j < kTogether; ++j)
      integers[j] = static_cast<uint8_t>(round(i, j) | round(i + half, j) << 4);
    std::copy_n(integers, cols, to);
  }
}

/// Where the word of an element lies.
static int64_t wordOf(const BlockLayout &layout, int64_t row, int64_t col) {
  return col / kPanelCols * *layout.panelWords().get() + row / 2 * kPanelCols +
         col % kPanelCols;
}

/// Writes some columns of some rows in panels of bf16.
static void writePairs(const Tile &tile, int64_t cols, uint32_t *to) {
  for (int64_t i = 0; i < kPanelRows; i += 2, to += kPanelCols)
    for (int64_t j = 0; j < cols; ++j)
      to[j] = toBFloat16(tile.x[i][j]) | uint32_t(toBFloat16(tile.x[i + 1][j]))
                                             << 16;
}

void writeBlocks(const BlockLayout &layout, const float *source,
                 int64_t rowStride, int64_t colStride, int64_t begin,
                 int64_t end, void *to) {
  auto *bytes = static_cast<uint8_t *>(to);
  const bool isBF16 = layout.blocks == WeightBlocks::BF16,
             isInt8 = layout.blocks == WeightBlocks::Int8;
  // The columns beyond are the last one's.
  const int64_t unit = isBF16 ? kPanelCols : kColumnUnit,
                padded = end == layout.n ? (end + unit - 1) / unit * unit : end;
  // Columns that lie apart are read panel by panel, from a core's cache.
  const int64_t group = rowStride < colStride ? kPanelCols : padded;
  for (int64_t first = begin, last; first < padded; first = last) {
    last = std::min(padded, first - first % kPanelCols + group);
    for (int64_t row = 0; row < layout.k; row += kBlockElements)
      for (int64_t col = first, cols; col < last; col += cols) {
        cols = std::min(last - col, kTogether - col % kTogether);
        const Tile tile(source + row * rowStride + col * colStride, rowStride,
                        colStride, std::min(layout.k - row, kBlockElements),
                        std::clamp<int64_t>(layout.n - col, 0, cols));
        if (isBF16) {
          writePairs(tile, cols,
                     static_cast<uint32_t *>(to) + wordOf(layout, row, col));
          continue;
        }
        const int64_t block = row / kBlockElements;
        float scales[kTogether];
        (isInt8 ? writeInt8 : writeInt4)(tile, cols,
                                         bytes + layout.integersAt(col, block),
                                         layout.colsOfPanel(col), scales);
        uint16_t narrow[kTogether];
        std::transform(scales, scales + cols, narrow, toFloat16);
        std::memcpy(bytes + layout.scaleAt(col, block), narrow, cols * 2);
      }
  }
}

/// Calls fn(i, integer, scale) for elements [first, last) of a column, of which
/// i counts.
template <typename Fn>
static void forEachElement(const BlockLayout &layout, const void *from,
                           int64_t column, int64_t first, int64_t last, Fn fn) {
  const auto *bytes = static_cast<const uint8_t *>(from);
  const int64_t ld = layout.colsOfPanel(column);
  constexpr int64_t half = kBlockElements / 2;
  for (int64_t block = first / kBlockElements, begin = 0;
       block < last / kBlockElements; ++block, begin += kBlockElements) {
    uint16_t narrow;
    std::memcpy(&narrow, bytes + layout.scaleAt(column, block), 2);
    const float scale = fromFloat16(narrow);
    const uint8_t *integers = bytes + layout.integersAt(column, block);
    if (layout.blocks == WeightBlocks::Int8) {
      for (int64_t i = 0; i < kBlockElements; ++i)
        fn(begin + i, static_cast<int8_t>(integers[i * ld]), scale);
      continue;
    }
    for (int64_t i = 0; i < half; ++i) {
      fn(begin + i, (integers[i * ld] & 15) - 8, scale);
      fn(begin + i + half, (integers[i * ld] >> 4) - 8, scale);
    }
  }
}

static void readPanel(const BlockLayout &layout, const uint32_t *from,
                      int64_t column, int64_t first, int64_t last, float *to) {
  for (int64_t row = first; row < last; ++row)
    to[row - first] = fromBFloat16(static_cast<uint16_t>(
        from[wordOf(layout, row, column)] >> row % 2 * 16));
}

void readBlocks(const BlockLayout &layout, const void *from, int64_t column,
                int64_t first, int64_t last, float *to) {
  if (layout.blocks == WeightBlocks::BF16)
    return readPanel(layout, static_cast<const uint32_t *>(from), column, first,
                     last, to);
  forEachElement(layout, from, column, first, last,
                 [&](int64_t i, int integer, float scale) {
                   to[i] = float(integer) * scale;
                 });
}

void readBlocks(const BlockLayout &layout, const void *from, int64_t column,
                int64_t first, int64_t last, float *to, double *bounds) {
  if (layout.blocks == WeightBlocks::BF16) {
    readBlocks(layout, from, column, first, last, to);
    // Half a unit of 8 bits, or of the smallest number.
    for (int64_t i = 0; i < last - first; ++i)
      bounds[i] = std::max(0x1p-8 * std::fabs(to[i]), 0x1p-134);
    return;
  }
  const bool isInt4 = layout.blocks == WeightBlocks::Int4;
  forEachElement(
      layout, from, column, first, last,
      [&](int64_t i, int integer, float scale) {
        to[i] = float(integer) * scale;
        const double size = std::fabs(scale);
        const double narrowed =
            std::max(0x1p-11 * (1 + 0x1p-10) * size, 0x1p-25);
        const double rounded = (isInt4 && integer == 7 ? 1 : 0.5) + 0x1p-16;
        bounds[i] = rounded * (size + narrowed) + std::abs(integer) * narrowed;
      });
}

} // namespace optimus_support
