//===- NarrowProducts.cpp - bf16 on processors that multiply f32
//-----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowProducts.h"

#include "optimus-support/DeviceScratch.h"

#include <algorithm>

using namespace optrt;
using optimus_support::kNarrowCols;
using optimus_support::kNarrowDepth;
using optimus_support::kNarrowRows;

namespace {
/// Elements that are worth a task.
constexpr int64_t kTask = 1 << 14;

int64_t tasksFor(const Team &team, int64_t rows, int64_t cols) {
  return std::min<int64_t>(
      {int64_t(team.size()), rows, std::max<int64_t>(rows * cols / kTask, 1)});
}
} // namespace

Status NarrowProducts::prepare(const optrt_gemm_desc &d) {
  return scratch.reserve(optimus_support::narrowProductScratchBytes(
      {d.m, d.n, d.k}, d.result_type == OPTRT_BF16, widens));
}

void NarrowProducts::widen(const uint16_t *from, int64_t fromLd, int64_t rows,
                           int64_t cols, float *to) const {
  team.split(rows, tasksFor(team, rows, cols), [&](int64_t row, int64_t end) {
    widenRows(from + row * fromLd, fromLd, end - row, cols, to + row * cols);
  });
}

/// What is left of a product once A and B are multiplied. A C of f32 holds the
/// product already, added to its former contents if asked for.
void NarrowProducts::finish(const optrt_gemm_desc &d, float *product,
                            int64_t productLd, NarrowMatrix c,
                            NarrowMatrix bias, NarrowMatrix extra) const {
  const bool isNarrow = c.isNarrow();
  team.split(d.m, tasksFor(team, d.m, d.n), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      float *sums = product + row * productLd;
      if (isNarrow && d.accumulate)
        addRow(c.at(row, 0), d.n, sums);
      if (d.has_bias)
        addRow(bias, d.n, sums);
      if (d.epilogue == OPTRT_EPILOGUE_ADD)
        addRow(extra.at(row, 0), d.n, sums);
      else if (d.epilogue == OPTRT_EPILOGUE_MUL)
        multiplyRow(extra.at(row, 0), d.n, sums);
      if (isNarrow)
        storeRow(sums, d.n, c.at(row, 0));
    }
  });
}

std::vector<NarrowProducts::Block>
NarrowProducts::blocksOf(const optrt_gemm_desc &d) const {
  const bool isNarrow = d.result_type == OPTRT_BF16;
  const int64_t mostDepth = widens ? kNarrowDepth : std::max<int64_t>(d.k, 1);
  std::vector<Block> blocks;
  for (int64_t col = 0; col < d.n; col += kNarrowCols)
    for (int64_t row = 0; row < d.m; row += kNarrowRows)
      // A product of depth 0 is zero, and so one block.
      for (int64_t depth = 0; depth == 0 || depth < d.k; depth += mostDepth) {
        optrt_gemm_desc block = {};
        block.m = std::min(kNarrowRows, d.m - row);
        block.n = std::min(kNarrowCols, d.n - col);
        block.k = std::min(mostDepth, d.k - depth);
        block.lda = !widens ? d.lda : d.trans_a ? block.m : block.k;
        block.ldb = !widens ? d.ldb : d.trans_b ? block.k : block.n;
        block.ldc = isNarrow ? block.n : d.ldc;
        block.trans_a = d.trans_a;
        block.trans_b = d.trans_b;
        block.accumulate = depth > 0 || (!isNarrow && d.accumulate);
        block.factor_type = widens ? OPTRT_F32 : d.factor_type;
        blocks.push_back({block, row, col, depth, depth + mostDepth >= d.k});
      }
  return blocks;
}

std::vector<optrt_gemm_desc>
NarrowProducts::productsOf(const optrt_gemm_desc &d) const {
  std::vector<optrt_gemm_desc> products;
  for (const Block &block : blocksOf(d))
    products.push_back(block.desc);
  return products;
}

Status NarrowProducts::gemm(const optrt_gemm_desc &d, const uint16_t *a,
                            const uint16_t *b, NarrowMatrix c,
                            NarrowMatrix bias, NarrowMatrix extra,
                            const Gemm &multiply) {
  const bool isNarrow = c.isNarrow();
  const bool finishes =
      isNarrow || d.has_bias || d.epilogue != OPTRT_EPILOGUE_NONE;
  const int64_t mostRows = std::min(d.m, kNarrowRows),
                mostCols = std::min(d.n, kNarrowCols),
                mostDepth = widens ? std::min(d.k, kNarrowDepth) : 0;
  OPTRT_RETURN_IF_ERROR(prepare(d));
  float *wideA = scratch.as<float>();
  float *wideB = wideA + mostRows * mostDepth;
  float *wideC = wideB + mostDepth * mostCols;
  for (const Block &at : blocksOf(d)) {
    const optrt_gemm_desc &block = at.desc;
    const uint16_t *partOfA =
        a + (d.trans_a ? at.depth * d.lda + at.row : at.row * d.lda + at.depth);
    const uint16_t *partOfB =
        b + (d.trans_b ? at.col * d.ldb + at.depth : at.depth * d.ldb + at.col);
    const NarrowMatrix partOfC = c.at(at.row, at.col);
    float *product =
        isNarrow
            ? wideC
            : const_cast<float *>(static_cast<const float *>(partOfC.start));
    if (widens) {
      widen(partOfA, d.lda, d.trans_a ? block.k : block.m,
            d.trans_a ? block.m : block.k, wideA);
      widen(partOfB, d.ldb, d.trans_b ? block.n : block.k,
            d.trans_b ? block.k : block.n, wideB);
      OPTRT_RETURN_IF_ERROR(multiply(block, wideA, wideB, product));
    } else {
      OPTRT_RETURN_IF_ERROR(multiply(block, partOfA, partOfB, product));
    }
    if (!finishes || !at.isLast)
      continue;
    optrt_gemm_desc whole = d;
    whole.m = block.m;
    whole.n = block.n;
    finish(whole, product, block.ldc, partOfC, bias.at(0, at.col),
           extra.at(at.row, at.col));
  }
  return okStatus();
}
