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
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace optimus_support {

/// Writes a block's integers; its scale. With an element that is no number, the
/// scale is none either, and integers do not count.
static float writeInt8(const float *x, int8_t *to) {
  float most = 0;
  bool isNumber = true;
  for (int64_t i = 0; i < kBlockElements; ++i) {
    most = std::max(most, std::fabs(x[i]));
    isNumber &= std::isfinite(x[i]);
  }
  if (!isNumber)
    return NAN;
  const float scale = most / 127;
  const float inverse = scale != 0 ? 1 / scale : 0;
  for (int64_t i = 0; i < kBlockElements; ++i)
    to[i] = static_cast<int8_t>(
        std::clamp(std::round(x[i] * inverse), -128.f, 127.f));
  return scale;
}

static float writeInt4(const float *x, uint8_t *to) {
  float largest = 0;
  bool isNumber = true;
  for (int64_t i = 0; i < kBlockElements; ++i) {
    if (std::fabs(x[i]) > std::fabs(largest))
      largest = x[i];
    isNumber &= std::isfinite(x[i]);
  }
  if (!isNumber)
    return NAN;
  const float scale = largest / -8;
  const float inverse = scale != 0 ? 1 / scale : 0;
  auto round = [&](float value) {
    return static_cast<uint8_t>(
        std::clamp(std::fma(value, inverse, 8.5f), 0.f, 15.f));
  };
  constexpr int64_t half = kBlockElements / 2;
  for (int64_t i = 0; i < half; ++i)
    to[i] = static_cast<uint8_t>(round(x[i]) | round(x[i + half]) << 4);
  return scale;
}

/// Where the word of an element lies.
static int64_t wordOf(const BlockLayout &layout, int64_t row, int64_t col) {
  return col / kPanelCols * *layout.panelWords().get() + row / 2 * kPanelCols +
         col % kPanelCols;
}

static void writePanels(const BlockLayout &layout, const float *source,
                        int64_t rowStride, int64_t colStride, int64_t begin,
                        int64_t end, uint32_t *to) {
  // The columns beyond are the last one's.
  const int64_t padded =
      end == layout.n ? (end + kPanelCols - 1) / kPanelCols * kPanelCols : end;
  // Columns within some rows: those that lie next to each other in either share
  // cache lines.
  for (int64_t first = 0; first < layout.k; first += kPanelRows)
    for (int64_t col = begin; col < padded; ++col) {
      const int64_t rows =
          col < layout.n ? std::min(layout.k - first, kPanelRows) : 0;
      const float *x = source + first * rowStride + col * colStride;
      auto read = [&](int64_t row) -> uint32_t {
        return row < rows ? toBFloat16(x[row * rowStride]) : 0;
      };
      uint32_t *words = to + wordOf(layout, first, col);
      for (int64_t row = 0; row < kPanelRows; row += 2, words += kPanelCols)
        *words = read(row) | read(row + 1) << 16;
    }
}

void writeBlocks(const BlockLayout &layout, const float *source,
                 int64_t rowStride, int64_t colStride, int64_t begin,
                 int64_t end, void *to) {
  if (layout.blocks == WeightBlocks::BF16)
    return writePanels(layout, source, rowStride, colStride, begin, end,
                       static_cast<uint32_t *>(to));
  auto *bytes = static_cast<uint8_t *>(to);
  const int64_t blocks = layout.blocksOfColumn();
  // Columns within rows of blocks: those next to each other share cache lines.
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t col = begin; col < end; ++col) {
      const float *x =
          source + block * kBlockElements * rowStride + col * colStride;
      float values[kBlockElements];
      for (int64_t i = 0; i < kBlockElements; ++i)
        values[i] = x[i * rowStride];
      uint8_t integers[kBlockElements] = {};
      const float scale =
          layout.blocks == WeightBlocks::Int8
              ? writeInt8(values, reinterpret_cast<int8_t *>(integers))
              : writeInt4(values, integers);
      const uint16_t narrow = toFloat16(scale);
      const int64_t number = col * blocks + block;
      std::memcpy(bytes + number * layout.integerBytes(), integers,
                  layout.integerBytes());
      std::memcpy(bytes + layout.scales() + number * 2, &narrow, 2);
    }
  // The last word may be half a scale.
  const int64_t all = layout.scales() + layout.n * blocks * 2;
  if (end == layout.n)
    std::memset(bytes + all, 0, -all & 3);
}

/// Calls fn(i, integer, scale) for elements [first, last) of a column, of which
/// i counts.
template <typename Fn>
static void forEachElement(const BlockLayout &layout, const void *from,
                           int64_t column, int64_t first, int64_t last, Fn fn) {
  const auto *bytes = static_cast<const uint8_t *>(from);
  const int64_t blocks = layout.blocksOfColumn();
  constexpr int64_t half = kBlockElements / 2;
  for (int64_t block = first / kBlockElements, begin = 0;
       block < last / kBlockElements; ++block, begin += kBlockElements) {
    const int64_t number = column * blocks + block;
    uint16_t narrow;
    std::memcpy(&narrow, bytes + layout.scales() + number * 2, 2);
    const float scale = fromFloat16(narrow);
    const uint8_t *integers = bytes + number * layout.integerBytes();
    if (layout.blocks == WeightBlocks::Int8) {
      for (int64_t i = 0; i < kBlockElements; ++i)
        fn(begin + i, static_cast<int8_t>(integers[i]), scale);
      continue;
    }
    for (int64_t i = 0; i < half; ++i) {
      fn(begin + i, (integers[i] & 15) - 8, scale);
      fn(begin + i + half, (integers[i] >> 4) - 8, scale);
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
