//===- FewRows.cpp - Products of a token for each slot --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FewRows.h"

#include "device/Descriptors.h"
#include "optimus-support/DeviceScratch.h"

#include <algorithm>

using namespace optrt;

using optimus_support::BlockLayout;
using optimus_support::WeightBlocks;

static_assert(kFewRows == optimus_support::kMostOfFewRows);
static_assert(kFewBitsBlock == optimus_support::kBlockElements);
static_assert(kFewRowsCols == optimus_support::kPanelCols);

/// Bytes of B that are worth a task.
static constexpr int64_t kTaskBytes = 1 << 16;

Status FewRows::prepare(const optrt_gemm_desc &d) {
  return d.factor_type == OPTRT_F32
             ? okStatus()
             : scratch.reserve(optimus_support::wideRowsBytes({d.m, d.n, d.k}));
}

namespace {
/// The rows that somebody reads.
struct LiveRows {
  explicit LiveRows(const optrt_gemm_desc &d) {
    for (int64_t row = 0; row < d.m; ++row)
      if (!d.live || d.live[row] >= 0)
        numbers[count++] = row;
  }
  const int64_t *begin() const { return numbers; }
  const int64_t *end() const { return numbers + count; }

  int64_t numbers[kFewRows];
  int64_t count = 0;
};
} // namespace

/// What is done to a part of C, once it is multiplied, and stores it.
static void finish(const optrt_gemm_desc &d, const LiveRows &rows, float *sums,
                   int64_t col, int64_t cols, NarrowMatrix c, NarrowMatrix bias,
                   NarrowMatrix extra) {
  for (int64_t row : rows) {
    if (d.accumulate)
      addRow(c.at(row, col), cols, sums);
    if (d.has_bias)
      addRow(bias.at(0, col), cols, sums);
    if (d.epilogue == OPTRT_EPILOGUE_ADD)
      addRow(extra.at(row, col), cols, sums);
    else if (d.epilogue == OPTRT_EPILOGUE_MUL)
      multiplyRow(extra.at(row, col), cols, sums);
    storeRow(sums, cols, c.at(row, col));
    sums += kFewRowsCols;
  }
}

Status FewRows::multiply(const optrt_gemm_desc &d, const void *a, const void *b,
                         Panels panels, NarrowMatrix c, NarrowMatrix bias,
                         NarrowMatrix extra) {
  const bool isNarrow = d.factor_type != OPTRT_F32;
  const LiveRows rows(d);
  if (rows.count == 0)
    return okStatus();
  const BlockLayout blocks = layoutOf(d);
  const bool hasFewBits = isFewBits(blocks.blocks),
             isPaired = blocks.blocks == WeightBlocks::BF16;
  if (isPaired)
    panels = {optimus_support::kPanelCols, *blocks.panelWords().get()};
  const float *rowsOfA[kFewRows];
  FewRowsProduct all = {};
  all.m = rows.count;
  all.k = d.k;
  all.a = rowsOfA;
  all.ldb = panels.cols > 0 ? panels.cols : d.packed_b ? d.n : d.ldb;
  all.isTransposed = d.trans_b;
  all.isNarrow = isNarrow;
  all.isPaired = isPaired;
  if (isNarrow) {
    OPTRT_RETURN_IF_ERROR(prepare(d));
    widenRows(static_cast<const uint16_t *>(a), d.lda, d.m, d.k,
              scratch.as<float>());
  }
  for (int64_t i = 0; i < rows.count; ++i)
    rowsOfA[i] = isNarrow
                     ? scratch.as<float>() + rows.numbers[i] * d.k
                     : static_cast<const float *>(a) + rows.numbers[i] * d.lda;
  if (hasFewBits)
    all.bits = blocks.integerBytes() * 8 / kFewBitsBlock;
  const int64_t elementBytes = isNarrow && !isPaired ? 2 : 4;
  const int64_t width = panels.cols > 0 ? panels.cols : kFewRowsCols;
  const int64_t parts = (d.n + width - 1) / width;
  const int64_t bytes =
      d.blocks != 0 ? *blocks.words().get() * 4 : d.n * d.k * elementBytes;
  const int64_t worth = bytes / kTaskBytes;
  team.split(parts, std::clamp<int64_t>(worth, 1, team.size()),
             [&](int64_t part, int64_t end) {
               alignas(64) float sums[kFewRows * kFewRowsCols];
               for (; part < end; ++part) {
                 const int64_t col = part * width;
                 const int64_t start = panels.cols > 0 ? part * panels.stride
                                       : d.trans_b     ? col * d.ldb
                                                       : col;
                 FewRowsProduct product = all;
                 product.cols = std::min(width, d.n - col);
                 const auto *bytesOfB = static_cast<const char *>(b);
                 product.b = bytesOfB + (hasFewBits ? blocks.blocksAt(col, 0)
                                                    : start * elementBytes);
                 if (hasFewBits)
                   product.ldb = blocks.colsOfPanel(col);
                 kernels.multiply(product, sums);
                 finish(d, rows, sums, col, product.cols, c, bias, extra);
               }
             });
  return okStatus();
}
