//===- NarrowKernelsTest.cpp - Kernels on buffers of bf16 -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel computes in f32 whatever its buffers hold: on bf16 it gives what the
// kernel on f32 gives for the same numbers, rounded once, to the bit.
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

TEST_P(KernelTest, NamesSayTheElementTypes) {
  Kernel gelu = kernels.elementwise<GeluOp>(4096);
  EXPECT_EQ(kernels.getName(gelu), "gelu_4096");
  EXPECT_EQ(kernels.getName(gelu, {"operand0", "result0"}), "gelu_bf16_4096");
  EXPECT_EQ(kernels.getName(gelu, {"result0"}), "gelu_f32_to_bf16_4096");
  EXPECT_EQ(kernels.getName(kernels.elementwise<AddOp>({32, 8}),
                            {"operand0", "result0"}),
            "add_bf16_f32_to_bf16_4x8");
  EXPECT_EQ(kernels.getName(kernels.step<AdamWOp>(8, true), {"grad"}),
            "adamw_decay_grad_bf16_8");
}

TEST_P(KernelTest, RoundsToTheNearestEven) {
  // Halfway between neighbours, to either side of it, past the largest, the
  // least, not normal, infinite, and NaN that only has low bits.
  const uint32_t bits[] = {
      0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF818000, 0x7F7FFFFF,
      0x7F7F7FFF, 0x00000001, 0x00008000, 0x00018000, 0x80018001, 0x7F800000,
      0xFF800000, 0x00000000, 0x80000000, 0x7F800001, 0x7FFFFFFF, 0xFF80FFFF};
  Floats x, one = {1};
  for (uint32_t value : bits)
    x.push_back(llvm::bit_cast<float>(value));
  const int64_t n = x.size();
  size_t number =
      kernels.add(kernels.elementwise<MulOp>({n, 1}), {}, {"result0"});
  ASSERT_EQ(kernels.compile(), "");
  Halves y = unsetHalves(n);
  run(number, x, one, y);
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i]))
      EXPECT_TRUE(std::isnan(widen(y[i]))) << std::hex << bits[i];
    else
      EXPECT_EQ(y[i], narrow(x[i])) << std::hex << bits[i];
  }
}

TEST_P(KernelTest, NarrowElementsAreComputedInFull) {
  std::vector<size_t> sums, gelus, narrowGelus, halfSums;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t n = rows * cols;
        Kernel add = kernels.elementwise<AddOp>({n, cols});
        Kernel gelu = kernels.elementwise<GeluOp>(n);
        sums.push_back(kernels.add(add));
        halfSums.push_back(
            kernels.add(add, {}, {"operand0", "operand1", "result0"}));
        gelus.push_back(kernels.add(gelu));
        return kernels.add(gelu, {}, {"operand0", "result0"});
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        size_t n = rows * cols;
        Halves x = narrow(random(n)), bias = narrow(random(cols));
        Floats wideX = widen(x), wideBias = widen(bias), wide = unset(n);
        Halves y = unsetHalves(n);
        run(sums[next], wideX, wideBias, wide);
        run(halfSums[next], x, bias, y);
        EXPECT_EQ(y, narrow(wide)) << at(rows, cols, 0);
        run(gelus[next++], wideX, wide);
        run(number, x, y);
        if (!isApproximate()) // NarrowActivationsTest.cpp
          EXPECT_EQ(y, narrow(wide)) << at(rows, cols, 0);
        kernels.run(number, {x.data(), x.data()}, 3);
        EXPECT_EQ(x, y) << "in place";
      });
}

TEST_P(KernelTest, NarrowRowsAreNormalisedInFull) {
  std::vector<size_t> wides;
  forSizes(
      [&](int64_t rows, int64_t n) {
        LayerNorm norm{rows, n, 1e-5};
        wides.push_back(kernels.add(norm));
        // Gain, shift and statistics stay f32.
        return kernels.add(norm, {}, {"x", "y"});
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t n) mutable {
        Halves x = narrow(random(rows * n, 3)), y = unsetHalves(rows * n);
        Floats wideX = widen(x), wideY = unset(rows * n);
        Floats gamma = random(n), beta = random(n), mean = unset(rows),
               rstd = unset(rows), wideMean = mean, wideRstd = rstd;
        run(wides[next++], wideX, gamma, beta, wideY, wideMean, wideRstd);
        run(number, x, gamma, beta, y, mean, rstd);
        EXPECT_EQ(mean, wideMean);
        EXPECT_EQ(rstd, wideRstd);
        EXPECT_EQ(y, narrow(wideY)) << at(rows, n, 0);
      });
}

TEST_P(KernelTest, NarrowGradientsMoveWideParameters) {
  const int64_t n = 5003;
  Kernel adamw = kernels.step<AdamWOp>(n, /*decay=*/true);
  size_t wide = kernels.add(adamw);
  size_t number = kernels.add(adamw, {}, {"grad"});
  ASSERT_EQ(kernels.compile(), "");
  Halves grad = narrow(random(n));
  Floats wideGrad = widen(grad), p = random(n), m = random(n, 0, 0.1), v(n);
  for (int64_t i = 0; i < n; ++i)
    v[i] = m[i] * m[i];
  Floats scale = {0.25f}, lr = {1e-2f}, wd = {0.1f}, b1 = {0.9f}, b2 = {0.95f},
         eps = {1e-8f}, b1p = {0.81f}, b2p = {0.9025f};
  auto step = [&](size_t number, auto &grad) {
    Floats newP = unset(n), newM = unset(n), newV = unset(n);
    run(number, p, grad, m, v, scale, lr, wd, b1, b2, eps, b1p, b2p, newP, newM,
        newV);
    return std::vector<Floats>{newP, newM, newV};
  };
  EXPECT_EQ(step(number, grad), step(wide, wideGrad));
}

TEST_P(KernelTest, NarrowLogitsBecomeGradientsInOneRounding) {
  struct Numbers {
    size_t max, whole, wholeGrad, part, partGrad;
    int64_t real;
  };
  std::vector<Numbers> all;
  const int64_t first = 3;
  const std::vector<std::string> narrowed = {"logits"};
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t real = std::max<int64_t>(1, cols - cols / 4);
        std::vector<int64_t> both = {first, real};
        all.push_back(
            {kernels.add(RowMax{rows, cols}, {real}, narrowed),
             kernels.add(LogitSums{rows, cols}, both, narrowed),
             kernels.add(LogitSums{rows, cols, true}, both, narrowed),
             kernels.add(PartialLogitSums{rows, cols}, both, narrowed),
             kernels.add(PartialLogitsGrad{rows, cols}, both, narrowed), real});
        return all.size() - 1;
      },
      [&](size_t number, int64_t rows, int64_t cols) {
        const Numbers &n = all[number];
        Halves logits = narrow(random(rows * cols, 0, 10));
        Floats wide = widen(logits), max = unset(rows);
        Ints targets(rows);
        for (int64_t i = 0; i < rows; ++i)
          targets[i] = i % 5 == 4 ? -1 : first + (i * 13) % n.real;
        Halves grads = logits, kept = logits;
        Floats sums = unset(rows * 2), sums2 = sums, sums3 = sums;
        run(n.wholeGrad, grads, targets, sums);
        run(n.whole, kept, targets, sums2);
        EXPECT_EQ(kept, logits);
        EXPECT_EQ(sums, sums2);
        run(n.max, kept, max);
        run(n.part, kept, max, targets, sums3);
        EXPECT_EQ(sums, sums3);
        run(n.partGrad, kept, max, sums, targets);
        EXPECT_EQ(grads, kept);
        // In roundings of f32: an exponential has 1e-6, and twice |x − max|, at
        // most 100 here; bf16 rounds once.
        const int64_t exponential = 17 + 200, toNarrow = 1 << 16;
        for (int64_t i = 0; i < rows; ++i) {
          const float *row = &wide[i * cols];
          double top = *std::max_element(row, row + n.real), total = 0;
          for (int64_t j = 0; j < n.real; ++j)
            total += std::exp(row[j] - top);
          EXPECT_EQ(max[i], float(top));
          expectNear(sums[2 * i], total, n.real + exponential, total,
                     at(rows, cols, i));
          bool isReal = targets[i] >= 0;
          double difference = isReal ? row[targets[i] - first] - top : 0;
          expectNear(sums[2 * i + 1], difference, 1, 100, at(rows, cols, i));
          for (int64_t j = 0; j < cols; ++j) {
            size_t e = i * cols + j;
            double p = j < n.real ? std::exp(row[j] - top) / total : 0;
            double hot = isReal && targets[i] - first == j ? 1 : 0;
            double expected = isReal ? p - hot : 0;
            double roundings = 2 * (n.real + 2 * exponential) + toNarrow;
            expectNear(widen(grads[e]), expected, roundings, p + hot + 1e-30,
                       at(rows, cols, e));
            if (j >= n.real)
              EXPECT_EQ(grads[e], 0) << "padding";
          }
        }
      });
}
