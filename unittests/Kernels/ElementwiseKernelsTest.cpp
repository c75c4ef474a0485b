//===- ElementwiseKernelsTest.cpp - Against plain formulas ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelTest.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

namespace {
template <typename Schedule>
std::unique_ptr<CompiledKernels> makeKernels() {
  static const Schedule schedule;
  return std::make_unique<CompiledKernels>(schedule);
}
std::unique_ptr<CompiledKernels> makeEmulated() {
  return std::make_unique<EmulatedKernels>();
}
} // namespace

INSTANTIATE_TEST_SUITE_P(
    Schedules, KernelTest,
    testing::Values(NamedKernels{"Cpu", makeKernels<CpuSchedule>},
                    NamedKernels{"Scalar", makeKernels<ScalarSchedule>},
                    NamedKernels{"Cuda", makeEmulated}),
    [](const auto &instance) { return std::string(instance.param.name); });

TEST_P(KernelTest, OneFunctionForEqualKernels) {
  std::string name = kernels.getName(kernels.elementwise<AddOp>({32, 8}));
  EXPECT_EQ(name, "add_4x8");
  EXPECT_EQ(name, kernels.getName(kernels.elementwise<AddOp>({32, 8})));
  EXPECT_NE(name, kernels.getName(kernels.elementwise<MulOp>({32, 8})));
  EXPECT_NE(name, kernels.getName(kernels.elementwise<AddOp>({32, 4})));
  EXPECT_NE(kernels.getName(LayerNorm{4, 8, 1e-5}),
            kernels.getName(LayerNorm{4, 8, 1e-6}));
  EXPECT_NE(kernels.getName(kernels.step<AdamWOp>(8, true)),
            kernels.getName(kernels.step<AdamWOp>(8, false)));
}

TEST(Libraries, HaveATableAndTheirKernels) {
  const CpuSchedule schedule;
  CompiledKernels kernels(schedule);
  size_t number = kernels.add(kernels.elementwise<GeluOp>(8));
  ASSERT_EQ(kernels.compile(), "");
  ASSERT_EQ(kernels.getModel()->num_kernels, 1u);
  const auto &functions = kernels.getTable().functions;
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0]->name, "launch0");
  ASSERT_EQ(functions[0]->commands.size(), 1u);
  EXPECT_EQ(describeAction(kernels.getTarget(), *functions[0]->commands[0]),
            kernels.getModel()->kernels[0].name);
  Floats x = random(8), y = unset(8);
  kernels.run(number, {x.data(), y.data()}, 1);
  for (float value : y)
    EXPECT_FALSE(std::isnan(value));
}

TEST_P(KernelTest, RepetitionHasAOneInEachRow) {
  size_t number = kernels.add(Repetition{6, 3});
  ASSERT_EQ(kernels.compile(), "");
  Floats e = unset(18);
  kernels.run(number, {e.data()}, 6);
  EXPECT_EQ(e, Floats({1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1}));
}

TEST_P(KernelTest, SplatHasOneValue) {
  size_t number = kernels.add(Splat{21, -1.5});
  ASSERT_EQ(kernels.compile(), "");
  Floats e = unset(21);
  kernels.run(number, {e.data()}, 21);
  EXPECT_EQ(e, Floats(21, -1.5));
}

TEST_P(KernelTest, AddAndMulRepeatTheRightSide) {
  std::vector<size_t> products;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        products.push_back(
            kernels.add(kernels.elementwise<MulOp>({rows * cols, cols})));
        return kernels.add(kernels.elementwise<AddOp>({rows * cols, cols}));
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        Floats lhs = random(rows * cols), rhs = random(cols);
        Floats sum = unset(rows * cols), product = unset(rows * cols);
        run(number, lhs, rhs, sum);
        run(products[next++], lhs, rhs, product);
        for (size_t i = 0; i < sum.size(); ++i) {
          EXPECT_EQ(sum[i], lhs[i] + rhs[i % cols]) << at(rows, cols, i);
          EXPECT_EQ(product[i], lhs[i] * rhs[i % cols]) << at(rows, cols, i);
        }
      });
}

TEST_P(KernelTest, AddWorksInPlace) {
  size_t number = kernels.add(kernels.elementwise<AddOp>({9 * 100, 100}));
  ASSERT_EQ(kernels.compile(), "");
  Floats lhs = random(900), rhs = random(100), before = lhs;
  kernels.run(number, {lhs.data(), rhs.data(), lhs.data()}, 3);
  for (size_t i = 0; i < lhs.size(); ++i)
    EXPECT_EQ(lhs[i], before[i] + rhs[i % 100]);
}

TEST_P(KernelTest, SumLeadingAddsColumns) {
  forSizes(
      [&](int64_t rows, int64_t cols) {
        return kernels.add(SumLeading{rows, cols});
      },
      [&](size_t number, int64_t rows, int64_t cols) {
        Floats x = random(rows * cols), sums = unset(cols);
        run(number, x, sums);
        for (int64_t j = 0; j < cols; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < rows; ++i) {
            sum += x[i * cols + j];
            magnitude += std::abs(x[i * cols + j]);
          }
          expectNear(sums[j], sum, rows, magnitude, at(rows, cols, j));
        }
      });
}

TEST_P(KernelTest, GeluAndItsSlope) {
  std::vector<size_t> slopes, inPlace;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        slopes.push_back(
            kernels.add(kernels.elementwise<GeluWithSlopeOp>(rows * cols)));
        return kernels.add(kernels.elementwise<GeluOp>(rows * cols));
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        size_t n = rows * cols;
        Floats x = random(n, 0, 3), y = unset(n), z = unset(n),
               slope = unset(n);
        // Far out, where the exponential saturates, and at zero.
        const float special[] = {0.0f, 40.0f, -40.0f, 1e4f, -1e4f};
        std::copy_n(special, std::min<size_t>(n, 5), x.begin());
        run(number, x, y);
        size_t both = slopes[next++];
        run(both, x, z, slope);
        const double scale = std::sqrt(2 / M_PI);
        for (size_t i = 0; i < n; ++i) {
          double v = x[i], u = scale * (v + 0.044715 * v * v * v);
          double s = 1 / (1 + std::exp(-2 * u));
          double du = scale * (1 + 3 * 0.044715 * v * v);
          double rest = 1 / (1 + std::exp(2 * u));
          // A relative error in 2u of four roundings becomes one of 2u times as
          // much in the exponential. The exponential decays faster than 2u
          // grows where it matters: |2u|·min(s, 1−s) is below 0.3.
          double error = 8 + 4 * std::abs(2 * u) * rest;
          expectNear(y[i], v * s, error, std::abs(v) * s + 1e-7,
                     at(rows, cols, i));
          EXPECT_EQ(std::abs(z[i] - v * s) <=
                        error * kRoundoff * (std::abs(v) * s + 1e-7) + 1e-37,
                    true)
              << at(rows, cols, i);
          double turn = std::abs(2 * v * du * s * rest);
          expectNear(slope[i], s + 2 * v * du * s * rest,
                     12 + 8 * std::abs(2 * u), s + turn + 1e-7,
                     at(rows, cols, i));
        }
        // The slope may take the place of x.
        Floats over = x;
        kernels.run(both, {over.data(), y.data(), over.data()}, 2);
        EXPECT_EQ(over, slope);
      });
}

TEST_P(KernelTest, SumsOverAllElements) {
  struct Numbers {
    size_t count, squares, final, sqrt;
    int64_t n;
  };
  std::vector<Numbers> all;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t n = rows * cols;
        all.push_back({kernels.add(CountReal{n}), kernels.add(SumSquares{n}),
                       kernels.add(SumPartials{getNumPartials(n)}),
                       kernels.add(kernels.elementwise<SqrtOp>(n)), n});
        return kernels.add(SumTokens{n});
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        Numbers other = all[next++];
        int64_t n = other.n;
        Floats x = random(n), sum = unset(1), count = unset(1), norm = unset(1);
        Ints targets(n);
        int32_t real = 0;
        for (int64_t i = 0; i < n; ++i)
          real += (targets[i] = i % 3 - 1) >= 0;
        std::vector<double> partials(getNumPartials(n));
        run(number, x, sum);
        run(other.count, targets, count);
        run(other.squares, x, partials);
        run(other.final, partials, norm);
        double total = std::accumulate(x.begin(), x.end(), 0.0), squares = 0;
        for (float value : x)
          squares += double(value) * value;
        // Sums in f64 are rounded once.
        expectNear(sum[0], total, 1.001, std::abs(total) + 1e-9,
                   at(rows, cols, 0));
        expectNear(norm[0], squares, 1.001, squares, at(rows, cols, 0));
        EXPECT_EQ(count[0], float(real));
        Floats root = unset(n);
        for (float &value : x)
          value = std::abs(value);
        run(other.sqrt, x, root);
        for (int64_t i = 0; i < n; ++i)
          EXPECT_EQ(root[i], std::sqrt(x[i]));
      });
}

TEST_P(KernelTest, SumSquaresHasPartials) {
  const int64_t n = 40000;
  ASSERT_GT(getNumPartials(n), 1);
  size_t squares = kernels.add(SumSquares{n});
  size_t final = kernels.add(SumPartials{getNumPartials(n)});
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(n), sum = unset(1);
  std::vector<double> partials(getNumPartials(n));
  run(squares, x, partials);
  run(final, partials, sum);
  double want = 0;
  for (float value : x)
    want += double(value) * value;
  expectNear(sum[0], want, 1.001, want, "sum");
}

TEST_P(KernelTest, ClipAveragesAndLimits) {
  size_t number = kernels.add(Clip{});
  ASSERT_EQ(kernels.compile(), "");
  struct Case {
    float norm, count, limit;
  };
  for (Case c : {Case{300, 100, 1}, Case{30, 100, 1}, Case{5, 0, 1}}) {
    Floats norm = {c.norm}, count = {c.count}, limit = {c.limit};
    Floats scale = unset(1), mean = unset(1);
    run(number, norm, count, limit, scale, mean);
    double tokens = std::max(c.count, 1.0f), average = c.norm / tokens;
    expectNear(mean[0], average, 3, average, "mean norm");
    double want = std::min(1.0, c.limit / (average + 1e-6)) / tokens;
    expectNear(scale[0], want, 8, want, "scale");
  }
  Floats norm = {std::numeric_limits<float>::quiet_NaN()}, one = {1};
  Floats scale = {0}, mean = {0};
  kernels.run(number,
              {norm.data(), one.data(), one.data(), scale.data(), mean.data()},
              1);
  EXPECT_TRUE(std::isnan(scale[0]));
}

TEST_P(KernelTest, AdamWUpdatesInPlace) {
  for (int64_t n : {1, 37, 4096, 10000})
    for (bool decay : {false, true})
      kernels.add(kernels.step<AdamWOp>(n, decay));
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t n : {1, 37, 4096, 10000})
    for (bool decay : {false, true}) {
      Floats p = random(n), g = random(n), m = random(n, 0, 0.1);
      Floats v = random(n, 0, 0.1);
      for (float &value : v)
        value *= value;
      Floats scale = {0.25f}, lr = {1e-2f}, wd = {0.1f}, b1 = {0.9f};
      Floats b2 = {0.95f}, eps = {1e-8f}, b1p = {0.81f}, b2p = {0.9025f};
      Floats oldP = p, oldM = m, oldV = v;
      kernels.run(number++,
                  {p.data(), g.data(), m.data(), v.data(), scale.data(),
                   lr.data(), wd.data(), b1.data(), b2.data(), eps.data(),
                   b1p.data(), b2p.data(), p.data(), m.data(), v.data()},
                  3);
      for (int64_t i = 0; i < n; ++i) {
        double gs = double(g[i]) * scale[0];
        double wantM = double(b1[0]) * oldM[i] + (1.0 - b1[0]) * gs;
        double wantV = double(b2[0]) * oldV[i] + (1.0 - b2[0]) * gs * gs;
        double sizeM = std::abs(oldM[i]) + std::abs(gs);
        expectNear(m[i], wantM, 5, sizeM, at(1, n, i));
        expectNear(v[i], wantV, 6, wantV, at(1, n, i));
        double root = std::sqrt(wantV / (1.0 - b2p[0])) + eps[0];
        double step = wantM / (1.0 - b1p[0]) / root;
        double want = oldP[i] - lr[0] * (step + (decay ? wd[0] * oldP[i] : 0));
        // 1 − beta_power is exact; the step is off by some twelve roundings
        // of the magnitudes in it.
        expectNear(p[i], want, 4,
                   std::abs(oldP[i]) +
                       4 * lr[0] * sizeM / (1.0 - b1p[0]) / root,
                   at(1, n, i));
      }
    }
}
