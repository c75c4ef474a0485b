//===- FewRowsTest.cpp - Products of a token for each slot ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../FewRowsKernels.h"
#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"
#include "optimus-support/BFloat16.h"
#include "optimus-support/WeightBlocks.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace optrt;
using optimus_support::fromBFloat16;
using optimus_support::toBFloat16;

namespace {

enum class Layout { Straight, Transposed, Packed, Int8, Int4, Panels };

/// Whether B is in blocks, and in which: optimus_support::WeightBlocks.
int64_t blocksOf(Layout layout) {
  return layout == Layout::Int8     ? 1
         : layout == Layout::Int4   ? 2
         : layout == Layout::Panels ? 3
                                    : 0;
}

/// A product of kFewRows rows, whose first ones are computed alone, too. Rows
/// and columns have gaps, and nothing lies behind the last element.
struct Case {
  Layout layout;
  bool isNarrow, narrowsResult;
  int64_t n, k;
  bool accumulate = false, hasBias = false;
  int32_t epilogue = OPTRT_EPILOGUE_NONE;
};

/// Elements of f32, of which bf16 are rounded.
struct Values {
  std::vector<float> wide;
  std::vector<uint16_t> narrow;
  const void *data(bool isNarrow) const {
    return isNarrow ? static_cast<const void *>(narrow.data()) : wide.data();
  }
};

class FewRowsTest : public ::testing::Test {
protected:
  Values draw(int64_t count, bool isNarrow) {
    Values values;
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < count; ++i) {
      values.wide.push_back(uniform(random));
      if (!isNarrow)
        continue;
      values.narrow.push_back(toBFloat16(values.wide.back()));
      values.wide.back() = fromBFloat16(values.narrow.back());
    }
    return values;
  }

  static optrt_gemm_desc describe(const Case &x) {
    optrt_gemm_desc d = {};
    d.m = kFewRows, d.n = x.n, d.k = x.k;
    d.lda = x.k + 1;
    d.trans_b = x.layout == Layout::Transposed;
    d.ldb = d.trans_b ? x.k + 3 : x.n + 3;
    d.ldc = x.n + 2;
    d.ld_extra = x.n + 1;
    d.accumulate = x.accumulate, d.has_bias = x.hasBias;
    d.epilogue = x.epilogue;
    d.factor_type = x.isNarrow ? OPTRT_BF16 : OPTRT_F32;
    d.result_type = x.narrowsResult ? OPTRT_BF16 : OPTRT_F32;
    d.bias_type = OPTRT_F32;
    d.extra_type = d.result_type;
    d.few_rows = 1;
    return d;
  }

  static optimus_support::BlockLayout layoutOf(const optrt_gemm_desc &d,
                                               int64_t blocks) {
    return {static_cast<optimus_support::WeightBlocks>(blocks), d.k, d.n};
  }

  /// The values of blocks of a B, which is not transposed.
  static void roundToBlocks(const optrt_gemm_desc &d, int64_t blocks,
                            std::vector<float> &b) {
    const auto layout = layoutOf(d, blocks);
    std::vector<int32_t> words(*layout.words().get());
    writeBlocks(layout, b.data(), d.ldb, 1, 0, d.n, words.data());
    std::vector<float> column(d.k);
    for (int64_t col = 0; col < d.n; ++col) {
      readBlocks(layout, words.data(), col, 0, d.k, column.data());
      for (int64_t row = 0; row < d.k; ++row)
        b[row * d.ldb + col] = column[row];
    }
  }

  /// Holds a product against loops in f64, and each number of rows and threads
  /// against it, bit for bit.
  void check(const Case &x) {
    optrt_gemm_desc d = describe(x);
    const Values a = draw((d.m - 1) * d.lda + d.k, x.isNarrow);
    const int64_t rowsOfB = d.trans_b ? d.n : d.k,
                  colsOfB = d.trans_b ? d.k : d.n;
    const int64_t blocks = blocksOf(x.layout);
    Values b = draw((rowsOfB - 1) * d.ldb + colsOfB, x.isNarrow && !blocks);
    const std::vector<float> given = b.wide;
    if (blocks)
      roundToBlocks(d, blocks, b.wide);
    const int64_t sizeOfC = (d.m - 1) * d.ldc + d.n;
    const Values before = draw(sizeOfC, x.narrowsResult);
    const Values bias = draw(d.n, false);
    const Values extra = draw((d.m - 1) * d.ld_extra + d.n, x.narrowsResult);
    std::vector<float> expected;
    // Some rows are of slots without a token.
    std::vector<int32_t> someLive(kFewRows, -1), noneLive(kFewRows, -1);
    for (int64_t row : {1, 2, 5, 6, 7, 8, 11})
      someLive[row] = static_cast<int32_t>(row);
    for (auto [threads, m, live] :
         {std::tuple(1, kFewRows, static_cast<int32_t *>(nullptr)),
          {maxThreads, kFewRows, nullptr},
          {maxThreads, int64_t(1), nullptr},
          {1, int64_t(2), nullptr},
          {maxThreads, int64_t(3), nullptr},
          {1, int64_t(5), nullptr},
          {maxThreads, int64_t(12), nullptr},
          {maxThreads, kFewRows, someLive.data()},
          {1, int64_t(9), someLive.data()},
          {maxThreads, int64_t(1), someLive.data()},
          {1, kFewRows, noneLive.data()}}) {
      CpuDevice device(threads);
      optrt_gemm_desc few = d;
      few.m = m;
      few.live = live;
      const void *factor = b.data(x.isNarrow && !blocks);
      DeviceMemory memory;
      if (x.layout == Layout::Packed || blocks) {
        few.ldb = blocks ? *layoutOf(d, blocks).words().get()
                         : (d.k + 15) / 16 * 16 * ((d.n + 63) / 64 * 64);
        few.packed_b = 1;
        few.blocks = blocks;
        auto allocated = device.allocate(few.ldb * 4, "a packed B");
        ASSERT_TRUE(allocated.ok());
        memory = std::move(*allocated);
        ASSERT_TRUE(device
                        .pack(kCompute, {d.k, d.n, d.ldb, few.ldb, 0, blocks},
                              given.data(),
                              reinterpret_cast<float *>(memory.data()))
                        .ok());
        factor = memory.data();
      }
      Workload workload;
      workload.products = {few};
      ASSERT_TRUE(device.prepare(workload).ok());
      Values c = before;
      const Status status =
          device.gemm(kCompute, few, a.data(x.isNarrow), factor,
                      const_cast<void *>(c.data(x.narrowsResult)),
                      bias.wide.data(), extra.data(x.narrowsResult));
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::size_t i = 0; i != c.narrow.size(); ++i)
        c.wide[i] = fromBFloat16(c.narrow[i]);
      if (expected.empty()) {
        expectProduct(x, d, a.wide, b.wide, before.wide, bias.wide, extra.wide,
                      c.wide);
        expected = c.wide;
        continue;
      }
      for (int64_t row = 0; row < m; ++row)
        for (int64_t col = 0; col < d.n; ++col)
          ASSERT_EQ(c.wide[row * d.ldc + col],
                    (live && live[row] < 0 ? before.wide
                                           : expected)[row * d.ldc + col])
              << m << " rows, " << threads << " threads, at " << row << ", "
              << col;
    }
  }

  /// A sum of t products in f32 errs by at most gamma = t u / (1 - t u) times
  /// the sum of their magnitudes, u = 2^-24, in any order; here t = k + 4
  /// counts C, bias and the epilogue. A narrow result is rounded once more, by
  /// 2^-9 of itself.
  static void expectProduct(const Case &x, const optrt_gemm_desc &d,
                            const std::vector<float> &a,
                            const std::vector<float> &b,
                            const std::vector<float> &before,
                            const std::vector<float> &bias,
                            const std::vector<float> &extra,
                            const std::vector<float> &found) {
    const double t = (d.k + 4) * 0x1p-24, gamma = t / (1 - t);
    for (int64_t i = 0; i < d.m; ++i) {
      for (int64_t j = 0; j < d.n; ++j) {
        double sum = 0, magnitude = 0;
        auto add = [&](double value) {
          sum += value;
          magnitude += std::abs(value);
        };
        for (int64_t l = 0; l < d.k; ++l)
          add(double(a[i * d.lda + l]) *
              b[d.trans_b ? j * d.ldb + l : l * d.ldb + j]);
        if (x.accumulate)
          add(before[i * d.ldc + j]);
        if (x.hasBias)
          add(bias[j]);
        const double factor = extra[i * d.ld_extra + j];
        if (x.epilogue == OPTRT_EPILOGUE_ADD)
          add(factor);
        if (x.epilogue == OPTRT_EPILOGUE_MUL) {
          sum *= factor;
          magnitude *= std::abs(factor);
        }
        const double narrowing = x.narrowsResult ? 0x1p-8 : 0;
        ASSERT_NEAR(found[i * d.ldc + j], sum,
                    magnitude * (gamma + narrowing) + 1e-30)
            << i << ", " << j;
      }
      // Nothing is written between rows.
      for (int64_t j = d.n; i + 1 < d.m && j < d.ldc; ++j)
        ASSERT_EQ(found[i * d.ldc + j], before[i * d.ldc + j]);
    }
  }

  /// A set of kernels reads blocks as loops do.
  void checkBlocks(const FewRowsKernels &set) {
    constexpr int64_t k = 32 * 5, n = 64 + 27, first = 16, cols = 27;
    const Values b = draw(k * n, false);
    for (int64_t blocks : {1, 2}) {
      const optimus_support::BlockLayout layout{
          static_cast<optimus_support::WeightBlocks>(blocks), k, n};
      std::vector<int32_t> words(*layout.words().get());
      writeBlocks(layout, b.wide.data(), n, 1, 0, n, words.data());
      // Of a whole panel and of the last one, from the second block on.
      for (int64_t begin : {first, int64_t(64)}) {
        std::vector<float> found((k - 32) * cols), column(k - 32);
        set.widen({reinterpret_cast<const char *>(words.data()) +
                       layout.blocksAt(begin, 1),
                   layout.colsOfPanel(begin), blocks == 1 ? 8 : 4,
                   layout.blocksOfColumn() - 1, begin % 64, cols, cols},
                  found.data());
        for (int64_t col = 0; col != cols; ++col) {
          readBlocks(layout, words.data(), begin + col, 32, k, column.data());
          for (int64_t row = 0; row != k - 32; ++row)
            ASSERT_EQ(found[row * cols + col], column[row])
                << begin << ", " << row << ", " << col;
        }
      }
    }
  }

  std::mt19937 random{5};
};

TEST_F(FewRowsTest, RowsAreTheSameAmongAnyOthers) {
  for (Layout layout :
       {Layout::Straight, Layout::Transposed, Layout::Packed, Layout::Panels})
    for (bool isNarrow : {false, true}) {
      if (isNarrow ? layout == Layout::Packed : layout == Layout::Panels)
        continue;
      for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1},
                          {7, 3},
                          {64, 64},
                          {130, 200},
                          {333, 129}}) {
        SCOPED_TRACE(testing::Message()
                     << "layout " << int(layout) << ", narrow " << isNarrow
                     << ", n " << n << ", k " << k);
        ASSERT_NO_FATAL_FAILURE(check({layout, isNarrow, false, n, k}));
      }
    }
}

TEST_F(FewRowsTest, BlocksOfFewBitsAreReadAsTheyAre) {
  for (Layout layout : {Layout::Int8, Layout::Int4})
    for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 32}, {130, 1056}})
      for (bool isNarrow : {false, true}) {
        SCOPED_TRACE(testing::Message() << "layout " << int(layout) << ", n "
                                        << n << ", narrow " << isNarrow);
        ASSERT_NO_FATAL_FAILURE(check({layout, isNarrow, isNarrow, n, k, true,
                                       true, OPTRT_EPILOGUE_ADD}));
      }
}

/// Products of more rows read blocks of few bits in f32, columns at a time.
TEST_F(FewRowsTest, ProductsOfManyRowsReadBlocksToo) {
  for (Layout layout : {Layout::Int8, Layout::Int4, Layout::Panels})
    for (bool isNarrow : {false, true}) {
      const int64_t blocks = blocksOf(layout);
      // More than one block of columns, and rows that are no pairs.
      const bool isPanel = layout == Layout::Panels;
      if (isPanel && !isNarrow)
        continue;
      Case x{layout,
             isNarrow,
             isNarrow,
             /*n=*/isPanel ? 2150 : 150,
             /*k=*/isPanel ? 2081 : 2080,
             false,
             true};
      optrt_gemm_desc d = describe(x);
      d.m = 19;
      const Values a = draw((d.m - 1) * d.lda + d.k, isNarrow);
      Values b = draw((d.k - 1) * d.ldb + d.n, false);
      const Values bias = draw(d.n, false);
      CpuDevice device(maxThreads);
      optrt_gemm_desc many = d;
      many.packed_b = 1;
      many.blocks = blocks;
      many.ldb = *layoutOf(d, blocks).words().get();
      std::vector<int32_t> words(many.ldb);
      ASSERT_TRUE(device
                      .pack(kCompute, {d.k, d.n, d.ldb, many.ldb, 0, blocks},
                            b.wide.data(),
                            reinterpret_cast<float *>(words.data()))
                      .ok());
      roundToBlocks(d, blocks, b.wide);
      Workload workload;
      workload.products = {many};
      ASSERT_TRUE(device.prepare(workload).ok());
      Values c = draw((d.m - 1) * d.ldc + d.n, isNarrow);
      const Values before = c;
      const Status status = device.gemm(
          kCompute, many, a.data(isNarrow), words.data(),
          const_cast<void *>(c.data(isNarrow)), bias.wide.data(), nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      for (std::size_t i = 0; i != c.narrow.size(); ++i)
        c.wide[i] = fromBFloat16(c.narrow[i]);
      d.ld_extra = 0;
      expectProduct(x, d, a.wide, b.wide, before.wide, bias.wide,
                    std::vector<float>(d.n), c.wide);
    }
}

/// Of a chunk whose last rows have no token the others are computed, as a
/// product of few rows, or of as many as were prepared.
TEST_F(FewRowsTest, LastRowsThatNobodyReadsAreLeftOut) {
  for (Layout layout :
       {Layout::Straight, Layout::Packed, Layout::Panels, Layout::Int8}) {
    const bool isNarrow = layout == Layout::Panels;
    const int64_t blocks = blocksOf(layout), rows = 300;
    const Case x{layout, isNarrow, false, /*n=*/70, /*k=*/96, false, true};
    optrt_gemm_desc d = describe(x);
    d.m = rows;
    const Values a = draw((d.m - 1) * d.lda + d.k, isNarrow);
    Values b = draw((d.k - 1) * d.ldb + d.n, false);
    const Values bias = draw(d.n, false),
                 before = draw((d.m - 1) * d.ldc + d.n, false);
    CpuDevice device(maxThreads);
    optrt_gemm_desc chunk = d;
    std::vector<int32_t> words;
    if (layout != Layout::Straight) {
      chunk.packed_b = 1;
      chunk.blocks = blocks;
      chunk.ldb = blocks ? *layoutOf(d, blocks).words().get() : 96 * 128;
      words.resize(chunk.ldb);
      ASSERT_TRUE(device
                      .pack(kCompute, {d.k, d.n, d.ldb, chunk.ldb, 0, blocks},
                            b.wide.data(),
                            reinterpret_cast<float *>(words.data()))
                      .ok());
    }
    const void *factor =
        words.empty() ? b.wide.data() : static_cast<const void *>(words.data());
    if (blocks)
      roundToBlocks(d, blocks, b.wide);
    Workload workload;
    workload.products = {chunk};
    ASSERT_TRUE(device.prepare(workload).ok());
    for (int64_t count : {0, 3, 16, 17, 130, 300}) {
      SCOPED_TRACE(testing::Message()
                   << "layout " << int(layout) << ", " << count << " rows");
      std::vector<int32_t> live(rows, -1);
      std::fill_n(live.begin(), count, 7);
      chunk.live = live.data();
      Values c = before;
      const Status status = device.gemm(
          kCompute, chunk, a.data(isNarrow), factor,
          const_cast<void *>(c.data(false)), bias.wide.data(), nullptr);
      ASSERT_TRUE(status.ok()) << status.message();
      optrt_gemm_desc read = d;
      read.m = count;
      read.ld_extra = 0;
      expectProduct(x, read, a.wide, b.wide, before.wide, bias.wide,
                    std::vector<float>(d.n), c.wide);
      const int64_t end = (rows - 1) * d.ldc;
      if (count < 200) {
        EXPECT_EQ(c.wide[end], before.wide[end]);
      }
    }
  }
}

TEST_F(FewRowsTest, WhatIsAddedIsAdded) {
  for (Layout layout : {Layout::Straight, Layout::Transposed, Layout::Panels})
    for (int flags = 0; flags != 16; ++flags)
      for (int32_t epilogue :
           {OPTRT_EPILOGUE_NONE, OPTRT_EPILOGUE_ADD, OPTRT_EPILOGUE_MUL}) {
        const bool isNarrow = flags & 1;
        if (layout == Layout::Panels && !isNarrow)
          continue;
        SCOPED_TRACE(testing::Message()
                     << "layout " << int(layout) << ", flags " << flags
                     << ", epilogue " << epilogue);
        ASSERT_NO_FATAL_FAILURE(
            check({layout, isNarrow, isNarrow && flags & 2, 70, 33,
                   (flags & 4) != 0, (flags & 8) != 0, epilogue}));
      }
}

/// Of every instruction set that this processor has: the kernels that are not
/// chosen compute the same product, in their own order.
TEST_F(FewRowsTest, InstructionSetsAgree) {
  std::vector<const FewRowsKernels *> sets = {&fewRowsKernelsBaseline};
#ifdef __x86_64__
  if (__builtin_cpu_supports("x86-64-v3"))
    sets.push_back(&fewRowsKernelsV3);
  if (__builtin_cpu_supports("x86-64-v4"))
    sets.push_back(&fewRowsKernelsV4);
#endif
  for (bool isTransposed : {false, true})
    for (bool isNarrow : {false, true})
      for (int64_t cols : {64, 37}) {
        constexpr int64_t m = 7, k = 150;
        const Values a = draw(m * k, false);
        const Values b = draw(cols * k, isNarrow);
        const float *rows[m];
        for (int64_t i = 0; i < m; ++i)
          rows[i] = a.wide.data() + i * k;
        const FewRowsProduct product = {m,
                                        k,
                                        cols,
                                        rows,
                                        b.data(isNarrow),
                                        isTransposed ? k : cols,
                                        isTransposed,
                                        isNarrow};
        for (const FewRowsKernels *set : sets) {
          checkBlocks(*set);
          alignas(64) float sums[kFewRows * kFewRowsCols];
          set->multiply(product, sums);
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < cols; ++j) {
              double sum = 0, magnitude = 0;
              for (int64_t l = 0; l < k; ++l) {
                const double term =
                    double(a.wide[i * k + l]) *
                    b.wide[isTransposed ? j * k + l : l * cols + j];
                sum += term;
                magnitude += std::abs(term);
              }
              ASSERT_NEAR(sums[i * kFewRowsCols + j], sum,
                          magnitude * (k + 1) * 0x1p-24);
            }
        }
      }
}

} // namespace
