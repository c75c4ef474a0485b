//===- NarrowProducts.cpp - bf16 on processors that multiply f32
//-----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowProducts.h"

#include "FewRowsKernels.h"

#include "optimus-support/DeviceScratch.h"

#include <algorithm>

using namespace optrt;
using optimus_support::blockCols;
using optimus_support::BlockLayout;
using optimus_support::kNarrowCols;
using optimus_support::kNarrowDepth;
using optimus_support::kNarrowRows;
using optimus_support::kPanelCols;

namespace {
/// Elements that are worth a task.
constexpr int64_t kTask = 1 << 14;

int64_t tasksFor(const Team &team, int64_t rows, int64_t cols) {
  return std::min<int64_t>(
      {int64_t(team.size()), rows, std::max<int64_t>(rows * cols / kTask, 1)});
}
} // namespace

Status NarrowProducts::prepare(const optrt_gemm_desc &d) {
  const bool isNarrow = d.result_type == OPTRT_BF16;
  const optimus_support::ProductShape shape{d.m, d.n, d.k};
  return scratch.reserve(
      hasFewBits(d)
          ? optimus_support::blockProductScratchBytes(shape, widensA(d))
          : optimus_support::narrowProductScratchBytes(shape, isNarrow,
                                                       widens));
}

void NarrowProducts::writeBlocks(const optrt_pack_desc &d, const float *src,
                                 void *dst) const {
  const BlockLayout layout = layoutOf(d);
  // Whole panels, since threads that write to one share its cache lines.
  constexpr int64_t some = optimus_support::kPanelCols;
  const int64_t parts = (d.cols + some - 1) / some;
  team.split(parts, tasksFor(team, parts, d.rows * some),
             [&](int64_t part, int64_t end) {
               optimus_support::writeBlocks(layout, src, d.trans ? 1 : d.ld,
                                            d.trans ? d.ld : 1, part * some,
                                            std::min(end * some, d.cols), dst);
             });
}

const uint32_t *NarrowProducts::panelsAt(const optrt_gemm_desc &d,
                                         const void *b, int64_t depth,
                                         int64_t col) {
  return static_cast<const uint32_t *>(b) +
         col / kPanelCols * *layoutOf(d).panelWords().get() +
         depth / 2 * kPanelCols + col % kPanelCols;
}

void NarrowProducts::widenB(const optrt_gemm_desc &d, const void *b,
                            const Block &at, float *to) const {
  const optrt_gemm_desc &block = at.desc;
  if (d.blocks == 0) {
    const auto *part =
        static_cast<const uint16_t *>(b) +
        (d.trans_b ? at.col * d.ldb + at.depth : at.depth * d.ldb + at.col);
    widen(part, d.ldb, d.trans_b ? block.n : block.k,
          d.trans_b ? block.k : block.n, to);
    return;
  }
  if (!hasFewBits(d)) {
    team.split(block.k, tasksFor(team, block.k, block.n),
               [&](int64_t row, int64_t end) {
                 for (int64_t col = 0; col < block.n; col += kPanelCols)
                   for (int64_t i = row; i < end; ++i)
                     widenPairs(panelsAt(d, b, at.depth + i, at.col + col),
                                i % 2, std::min(block.n - col, kPanelCols),
                                to + i * block.n + col);
               });
    return;
  }
  const BlockLayout layout = layoutOf(d);
  const FewRowsKernels &kernels = bestFewRowsKernels();
  const int64_t blocks = block.k / kFewBitsBlock, end = at.col + block.n;
  team.split(
      blocks, tasksFor(team, blocks, block.n * kFewBitsBlock),
      [&](int64_t first, int64_t last) {
        for (int64_t col = at.col, cols; col < end; col += cols) {
          const int64_t inPanel = col % kPanelCols;
          cols = std::min(end - col, kPanelCols - inPanel);
          kernels.widen(
              {static_cast<const char *>(b) +
                   layout.blocksAt(col, at.depth / kFewBitsBlock + first),
               layout.colsOfPanel(col),
               layout.integerBytes() * 8 / kFewBitsBlock, last - first, inPanel,
               cols, block.n},
              to + first * kFewBitsBlock * block.n + col - at.col);
        }
      });
}

void NarrowProducts::widen(const uint16_t *from, int64_t fromLd, int64_t rows,
                           int64_t cols, float *to) const {
  team.split(rows, tasksFor(team, rows, cols), [&](int64_t row, int64_t end) {
    widenRows(from + row * fromLd, fromLd, end - row, cols, to + row * cols);
  });
}

/// What is left of a product once A and B are multiplied. A C of f32 may hold
/// the product already, added to its former contents if asked for.
void NarrowProducts::finish(const optrt_gemm_desc &d, float *product,
                            int64_t productLd, NarrowMatrix c,
                            NarrowMatrix bias, NarrowMatrix extra) const {
  const bool isApart = product != c.start;
  team.split(d.m, tasksFor(team, d.m, d.n), [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      float *sums = product + row * productLd;
      if (isApart && d.accumulate)
        addRow(c.at(row, 0), d.n, sums);
      if (d.has_bias)
        addRow(bias, d.n, sums);
      if (d.epilogue == OPTRT_EPILOGUE_ADD)
        addRow(extra.at(row, 0), d.n, sums);
      else if (d.epilogue == OPTRT_EPILOGUE_MUL)
        multiplyRow(extra.at(row, 0), d.n, sums);
      if (isApart)
        storeRow(sums, d.n, c.at(row, 0));
    }
  });
}

NarrowProducts::Extents NarrowProducts::mostOf(const optrt_gemm_desc &d) const {
  const int64_t depth = std::max<int64_t>(d.k, 1);
  if (hasFewBits(d))
    return {std::min(d.m, kNarrowRows), std::min(d.n, blockCols(d.k)), depth};
  return {std::min(d.m, kNarrowRows), std::min(d.n, kNarrowCols),
          widens ? std::min(depth, kNarrowDepth) : depth};
}

std::vector<NarrowProducts::Block>
NarrowProducts::blocksOf(const optrt_gemm_desc &d) const {
  const Extents most = mostOf(d);
  std::vector<Block> blocks;
  auto add = [&](int64_t row, int64_t col) {
    // A product of depth 0 is zero, and so one block.
    for (int64_t depth = 0; depth == 0 || depth < d.k; depth += most.depth) {
      optrt_gemm_desc block = {};
      block.m = std::min(most.rows, d.m - row);
      block.n = std::min(most.cols, d.n - col);
      block.k = std::min(most.depth, d.k - depth);
      block.trans_a = d.trans_a;
      block.trans_b = d.trans_b;
      block.lda = !widensA(d) ? d.lda : d.trans_a ? block.m : block.k;
      block.ldb = !widensB(d) ? d.ldb : block.trans_b ? block.k : block.n;
      block.ldc = isApart(d) ? block.n : d.ldc;
      block.accumulate = depth > 0 || (!isApart(d) && d.accumulate);
      block.factor_type = widensB(d) ? OPTRT_F32 : d.factor_type;
      if (d.blocks != 0 && !widensB(d)) {
        block.packed_b = 1;
        block.blocks = d.blocks;
        block.ldb = *layoutOf(block).words().get();
      }
      blocks.push_back({block, row, col, depth, depth + most.depth >= d.k});
    }
  };
  // With blocks of few bits the rows of A are widened once for all columns.
  if (hasFewBits(d)) {
    for (int64_t row = 0; row < d.m; row += most.rows)
      for (int64_t col = 0; col < d.n; col += most.cols)
        add(row, col);
    return blocks;
  }
  for (int64_t col = 0; col < d.n; col += most.cols)
    for (int64_t row = 0; row < d.m; row += most.rows)
      add(row, col);
  return blocks;
}

std::vector<optrt_gemm_desc>
NarrowProducts::productsOf(const optrt_gemm_desc &d) const {
  std::vector<optrt_gemm_desc> products;
  for (const Block &block : blocksOf(d))
    products.push_back(block.desc);
  return products;
}

Status NarrowProducts::gemm(const optrt_gemm_desc &d, const void *a,
                            const void *b, NarrowMatrix c, NarrowMatrix bias,
                            NarrowMatrix extra, const Gemm &multiply) {
  const bool finishes =
      isApart(d) || d.has_bias || d.epilogue != OPTRT_EPILOGUE_NONE;
  const Extents most = mostOf(d);
  OPTRT_RETURN_IF_ERROR(prepare(d));
  float *wideA = scratch.as<float>();
  float *wideB = wideA + (widensA(d) ? most.rows * most.depth : 0);
  float *wideC = wideB + (widensB(d) ? most.depth * most.cols : 0);
  const auto type = static_cast<optimus_support::ElementType>(d.factor_type);
  const NarrowMatrix rowsOfA{a, d.lda, type}, rowsOfB{b, d.ldb, type};
  for (const Block &at : blocksOf(d)) {
    const optrt_gemm_desc &block = at.desc;
    const void *partOfA = d.trans_a ? rowsOfA.at(at.depth, at.row).start
                                    : rowsOfA.at(at.row, at.depth).start;
    const void *partOfB = d.trans_b ? rowsOfB.at(at.col, at.depth).start
                                    : rowsOfB.at(at.depth, at.col).start;
    const NarrowMatrix partOfC = c.at(at.row, at.col);
    float *product =
        isApart(d)
            ? wideC
            : const_cast<float *>(static_cast<const float *>(partOfC.start));
    if (widensA(d)) {
      if (!hasFewBits(d) || at.col == 0)
        widen(static_cast<const uint16_t *>(partOfA), d.lda,
              d.trans_a ? block.k : block.m, d.trans_a ? block.m : block.k,
              wideA);
      partOfA = wideA;
    }
    if (widensB(d)) {
      widenB(d, b, at, wideB);
      partOfB = wideB;
    } else if (d.blocks != 0) {
      partOfB = panelsAt(d, b, at.depth, at.col);
    }
    OPTRT_RETURN_IF_ERROR(multiply(block, partOfA, partOfB, product));
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
