//===- RowSumsTest.cpp - Sums of columns of rows that are made --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelTest.h"

#include "optimus/Kernels/RowGroups.h"
#include "optimus/Kernels/RowSums.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using kernel_test::expectNear;
using kernel_test::Floats;
using kernel_test::random;
using kernel_test::unset;

namespace {

/// Rows of a turn, and of a group that has one alone.
constexpr int64_t kTogether = 32;

/// What follows a product in the backward of a norm: the gradients of gain and
/// shift, the gradient of rows, in place of dy, and the gradient of a bias.
struct NormBackward {
  NormBackward(int64_t rows, int64_t n, int64_t together = kTogether)
      : params{rows, n}, grad{rows, n, /*residual=*/true}, bias{rows, n},
        sums{
            {{params, {"dy", "x", "mean", "rstd", "gains", "shifts"}, {}},
             {grad, {"dy", "x", "mean", "rstd", "gamma", "residual", "dy"}, {}},
             {bias, {"dy", "biases"}, {}}},
            together} {}

  NormParamGrad params;
  LayerNormGrad grad;
  SumLeading bias;
  RowSums sums;
};

// Rows have the bits that they have alone; sums are as near as another order
// of adding leaves them: two sums of n terms are off by n roundings each.
TEST(RowSums, AreThoseOfTheKernelsAlone) {
  struct Size {
    int64_t rows, n, together;
  };
  // Groups of one turn and of several, the last of them not whole.
  const Size sizes[] = {{1, 4, 32},     {70, 37, 32},  {96, 64, 32},
                        {100, 768, 32}, {200, 37, 96}, {300, 768, 64},
                        {64, 20, 128}};
  struct Numbers {
    size_t params, grad, bias, sums, add;
  };
  EmulatedKernels kernels;
  std::vector<Numbers> numbers;
  for (auto [rows, n, together] : sizes) {
    NormBackward backward(rows, n, together);
    int64_t groups = llvm::divideCeil(rows, together);
    numbers.push_back({kernels.add(backward.params), kernels.add(backward.grad),
                       kernels.add(backward.bias), kernels.add(backward.sums),
                       kernels.add(SumLeading{groups, n})});
  }
  ASSERT_EQ(kernels.compile(), "");
  for (auto [size, number] : llvm::zip_equal(sizes, numbers)) {
    auto [rows, n, rowsTogether] = size;
    Floats dy = random(rows * n), x = random(rows * n), mean = random(rows),
           rstd = random(rows, 1, 0.1), gamma = random(n),
           residual = random(rows * n);
    Floats gain = unset(n), shift = unset(n), bias = unset(n);
    Floats alone = dy;
    kernels.run(number.params,
                {alone.data(), x.data(), mean.data(), rstd.data(), gain.data(),
                 shift.data()},
                2);
    kernels.run(number.grad,
                {alone.data(), x.data(), mean.data(), rstd.data(), gamma.data(),
                 residual.data(), alone.data()},
                2);
    kernels.run(number.bias, {alone.data(), bias.data()}, 2);

    int64_t groups = llvm::divideCeil(rows, rowsTogether);
    Floats gains = unset(groups * n), shifts = unset(groups * n),
           biases = unset(groups * n), together = dy;
    kernels.run(number.sums,
                {together.data(), x.data(), mean.data(), rstd.data(),
                 gains.data(), shifts.data(), gamma.data(), residual.data(),
                 biases.data()},
                3);
    EXPECT_EQ(together, alone);
    auto check = [&](Floats &parts, const Floats &expected, const char *what,
                     auto term) {
      Floats sum = unset(n);
      kernels.run(number.add, {parts.data(), sum.data()}, 2);
      for (int64_t column = 0; column < n; ++column) {
        double magnitude = 0;
        for (int64_t row = 0; row < rows; ++row)
          magnitude += std::abs(term(row, row * n + column));
        expectNear(sum[column], expected[column], 2 * double(rows) + 6,
                   magnitude, what);
      }
    };
    check(gains, gain, "gain", [&](int64_t row, int64_t at) {
      return double(dy[at]) * (double(x[at]) - mean[row]) * rstd[row];
    });
    check(shifts, shift, "shift",
          [&](int64_t, int64_t at) { return double(dy[at]); });
    check(biases, bias, "bias",
          [&](int64_t, int64_t at) { return double(alone[at]); });
  }
}

// The producer of dY together with its sums, where elements are rows.
TEST(RowSums, SumWhatElementsMake) {
  const int64_t rows = 40, n = 24;
  EmulatedKernels kernels;
  Elementwise mul =
      elementwise<MulOp>(&kernels.getContext(), {rows * n, rows * n});
  mul.rows = rows;
  mul.cols = n;
  size_t number =
      kernels.add(RowSums{{{mul, {"dy", "slope", "dy"}, {}},
                           {SumLeading{rows, n}, {"dy", "sums"}, {}}},
                          kTogether});
  ASSERT_EQ(kernels.compile(), "");
  Floats dy(rows * n, 3), slope(rows * n, 0.5f), sums = unset(2 * n);
  kernels.run(number, {dy.data(), slope.data(), sums.data()}, 3);
  EXPECT_EQ(dy, Floats(rows * n, 1.5f));
  Floats expected(n, 1.5f * 32);
  expected.resize(2 * n, 1.5f * 8);
  EXPECT_EQ(sums, expected);
}

/// Rows of other warps are summed before they are there.
struct RowsAndColumnsAtOnce final : CudaSchedule, RowGroups {
  const RowGroups *getRowGroups() const override { return this; }
  int64_t getTogether(int64_t) const override { return kTogether; }
  void
  forGroups(KernelBuilder &k, int64_t rows, int64_t together,
            llvm::function_ref<void(const RowGroup &)> body) const override {
    CudaSchedule::getRowGroups()->forGroups(k, rows, together, body);
  }
  void
  forTurns(KernelBuilder &k, const RowGroup &group, int64_t together,
           llvm::function_ref<void(const RowGroup &)> body) const override {
    CudaSchedule::getRowGroups()->forTurns(k, group, together, body);
  }
  void forRows(KernelBuilder &k, const RowGroup &group,
               IndexFn body) const override {
    CudaSchedule::getRowGroups()->forRows(k, group, body);
  }
  void forRows(KernelBuilder &k, IndexFn body) const override {
    CudaSchedule::forRows(k, body);
  }
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override {
    CudaSchedule::getRowGroups()->forColumns(k, cols, body);
  }
  void separate(KernelBuilder &) const override {}
};

TEST(RowSums, NeedABarrierBetweenRowsAndColumns) {
  const RowsAndColumnsAtOnce schedule;
  EmulatedKernels kernels(schedule);
  const int64_t rows = 40, n = 24;
  // One turn a group, and two.
  size_t numbers[] = {kernels.add(NormBackward(rows, n).sums),
                      kernels.add(NormBackward(rows, n, 2 * kTogether).sums)};
  ASSERT_EQ(kernels.compile(), "");
  for (size_t number : numbers) {
    Floats dy = random(rows * n), x = random(rows * n), mean = random(rows),
           rstd = random(rows), gamma = random(n), residual = random(rows * n),
           gains(2 * n), shifts(2 * n), biases(2 * n);
    EXPECT_THAT(kernels.runOnce(number,
                                {dy.data(), x.data(), mean.data(), rstd.data(),
                                 gains.data(), shifts.data(), gamma.data(),
                                 residual.data(), biases.data()},
                                1, emulator::Order::Forward),
                testing::HasSubstr("no barrier is in between"));
  }
}

// As many groups as a large GPU has room for, and no group without a turn.
TEST(RowSums, HaveFewPartsOfManyRows) {
  const CudaSchedule schedule;
  const RowGroups &groups = *schedule.getRowGroups();
  EXPECT_EQ(groups.getTogether(1), 32);
  EXPECT_EQ(groups.getTogether(4096), 32);
  EXPECT_EQ(groups.getTogether(512 * 32 + 1), 64);
  EXPECT_EQ(groups.getTogether(65536), 128);
}

} // namespace
