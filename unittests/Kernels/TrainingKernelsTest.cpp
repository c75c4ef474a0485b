//===- TrainingKernelsTest.cpp - SGD, LAMB, exact GELU and lengths --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tolerances: with u = 2^-24 the unit roundoff, an expression of k roundings is
// off by at most about k·u of the magnitudes that it adds up.
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using mlir::optimus::kernel_test::KernelTest;

namespace {

using Floats = std::vector<float>;

Floats random(size_t n, double spread = 1) {
  static std::mt19937 generator(11);
  std::normal_distribution<float> distribution(0, spread);
  Floats values(n);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

void expectNear(float actual, double expected, double roundings,
                double magnitude, int64_t i) {
  EXPECT_LE(std::abs(actual - expected),
            roundings * 0x1p-24 * magnitude + 1e-37)
      << "element " << i << ": " << actual << " for " << expected;
  EXPECT_FALSE(std::isnan(actual)) << i;
}

constexpr int64_t kSizes[] = {1, 37, 4096, 10000};

TEST_P(KernelTest, SgdUpdatesInPlace) {
  for (int64_t n : kSizes)
    for (bool decay : {false, true})
      kernels.add(kernels.step<SgdOp>(n, decay));
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t n : kSizes)
    for (bool decay : {false, true}) {
      Floats p = random(n), g = random(n), b = random(n);
      Floats scale = {0.25f}, lr = {1e-2f}, wd = {0.1f}, momentum = {0.9f};
      Floats oldP = p, oldB = b;
      kernels.run(number++,
                  {p.data(), g.data(), b.data(), scale.data(), lr.data(),
                   wd.data(), momentum.data(), p.data(), b.data()},
                  3);
      for (int64_t i = 0; i < n; ++i) {
        double gs = double(g[i]) * scale[0];
        double shrink = decay ? double(wd[0]) * oldP[i] : 0;
        double want = double(momentum[0]) * oldB[i] + gs + shrink;
        double size = std::abs(oldB[i]) + std::abs(gs) + std::abs(shrink);
        expectNear(b[i], want, 4, size, i);
        expectNear(p[i], oldP[i] - lr[0] * want, 3,
                   std::abs(oldP[i]) + 4 * lr[0] * size, i);
      }
    }
}

TEST_P(KernelTest, LionMovesBySigns) {
  for (bool decay : {false, true})
    kernels.add(kernels.step<LionOp>(5, decay));
  ASSERT_EQ(kernels.compile(), "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Floats scale = {0.5f}, lr = {0.25f}, wd = {0.5f}, b1 = {0.5f}, b2 = {0.75f};
  for (bool decay : {false, true}) {
    // β₁m + (1−β₁)g' is 1, −1, 0, NaN and −0.25.
    Floats p = {1, 2, 4, 8, 16}, g = {2, 0, 4, nan, -2},
           m = {1, -2, -2, 1, 0.5};
    kernels.run(decay,
                {p.data(), g.data(), m.data(), scale.data(), lr.data(),
                 wd.data(), b1.data(), b2.data(), p.data(), m.data()},
                2);
    float shrink = decay ? 0.125f : 0;
    const float signs[] = {1, -1, 0, nan, -1}, start[] = {1, 2, 4, 8, 16};
    for (size_t i : {0, 1, 2, 4})
      EXPECT_EQ(p[i], start[i] - 0.25f * signs[i] - shrink * start[i]) << i;
    EXPECT_TRUE(std::isnan(p[3]) && std::isnan(m[3]));
    EXPECT_EQ(m[0], 1.0f);
    EXPECT_EQ(m[4], 0.125f);
  }
}

TEST_P(KernelTest, AdagradDividesByTheRootOfItsSum) {
  for (int64_t n : kSizes)
    for (bool decay : {false, true})
      kernels.add(kernels.step<AdagradOp>(n, decay));
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t n : kSizes)
    for (bool decay : {false, true}) {
      Floats p = random(n), g = random(n), sum = random(n);
      for (float &value : sum)
        value *= value;
      Floats scale = {0.25f}, lr = {1e-2f}, wd = {0.1f}, eps = {1e-3f};
      Floats oldP = p, oldSum = sum;
      kernels.run(number++,
                  {p.data(), g.data(), sum.data(), scale.data(), lr.data(),
                   wd.data(), eps.data(), p.data(), sum.data()},
                  3);
      for (int64_t i = 0; i < n; ++i) {
        double shrink = decay ? double(wd[0]) * oldP[i] : 0;
        double gs = double(g[i]) * scale[0] + shrink;
        double size = std::abs(double(g[i]) * scale[0]) + std::abs(shrink);
        double want = oldSum[i] + gs * gs;
        expectNear(sum[i], want, 8, oldSum[i] + size * size, i);
        double root = std::sqrt(want) + eps[0];
        expectNear(p[i], oldP[i] - lr[0] * gs / root, 16,
                   std::abs(oldP[i]) + lr[0] * size / root, i);
      }
    }
}

TEST_P(KernelTest, LambMakesADirectionAndGoesAlongIt) {
  for (int64_t n : kSizes)
    for (bool decay : {false, true}) {
      kernels.add(kernels.step<LambDirectionOp>(n, decay));
      kernels.add(
          kernels.step<LambUpdateOp>(n, /*decay=*/false, /*trust=*/decay));
    }
  ASSERT_EQ(kernels.compile(), "");
  size_t number = 0;
  for (int64_t n : kSizes)
    for (bool decay : {false, true}) {
      Floats p = random(n), g = random(n), m = random(n, 0.1),
             v = random(n, 0.1);
      for (float &value : v)
        value *= value;
      Floats scale = {0.25f}, wd = {0.1f}, b1 = {0.9f}, b2 = {0.95f};
      Floats eps = {1e-8f}, b1p = {0.81f}, b2p = {0.9025f};
      Floats oldG = g, oldM = m, oldV = v, oldP = p;
      // The direction takes the gradient's place.
      kernels.run(number++,
                  {p.data(), g.data(), m.data(), v.data(), scale.data(),
                   wd.data(), b1.data(), b2.data(), eps.data(), b1p.data(),
                   b2p.data(), g.data(), m.data(), v.data()},
                  3);
      for (int64_t i = 0; i < n; ++i) {
        double gs = double(oldG[i]) * scale[0];
        double wantM = double(b1[0]) * oldM[i] + (1.0 - b1[0]) * gs;
        double wantV = double(b2[0]) * oldV[i] + (1.0 - b2[0]) * gs * gs;
        double sizeM = std::abs(oldM[i]) + std::abs(gs);
        expectNear(m[i], wantM, 5, sizeM, i);
        expectNear(v[i], wantV, 6, wantV, i);
        double root = std::sqrt(wantV / (1.0 - b2p[0])) + eps[0];
        double shrink = decay ? double(wd[0]) * p[i] : 0;
        expectNear(g[i], wantM / (1.0 - b1p[0]) / root + shrink, 14,
                   sizeM / (1.0 - b1p[0]) / root + std::abs(shrink), i);
      }
      Floats lr = {1e-2f}, norm = {3}, directionNorm = {1.5f};
      std::vector<void *> buffers = {p.data(), g.data(), lr.data()};
      if (decay)
        buffers.insert(buffers.end(), {norm.data(), directionNorm.data()});
      buffers.push_back(p.data());
      kernels.run(number, buffers, 3);
      double step = decay ? 2e-2 : 1e-2;
      for (int64_t i = 0; i < n; ++i)
        expectNear(p[i], oldP[i] - step * g[i], 4,
                   std::abs(oldP[i]) + step * std::abs(g[i]), i);
      // A parameter of zeros, or one that does not move: the ratio is 1.
      if (decay)
        for (Floats *zero : {&norm, &directionNorm}) {
          norm = {3}, directionNorm = {1.5f};
          (*zero)[0] = 0;
          p = oldP;
          kernels.run(number, buffers, 1);
          for (int64_t i = 0; i < n; ++i)
            expectNear(p[i], oldP[i] - 1e-2 * g[i], 4,
                       std::abs(oldP[i]) + 1e-2 * std::abs(g[i]), i);
        }
      ++number;
    }
}

TEST_P(KernelTest, ExactGeluAndItsSlope) {
  constexpr int64_t n = 5000;
  size_t value = kernels.add(kernels.elementwise<GeluOp>(n, /*exact=*/true));
  size_t both =
      kernels.add(kernels.elementwise<GeluWithSlopeOp>(n, /*exact=*/true));
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(n, 3), y(n), z(n), slope(n);
  const float special[] = {0.0f,  40.0f, -40.0f, 1e4f,
                           -1e4f, 1e-6f, -12.0f, -5.5f};
  std::copy(std::begin(special), std::end(special), x.begin());
  kernels.run(value, {x.data(), y.data()}, 3);
  kernels.run(both, {x.data(), z.data(), slope.data()}, 3);
  EXPECT_EQ(y, z);
  EXPECT_EQ(y[0], 0);
  for (int64_t i = 0; i < n; ++i) {
    double v = x[i];
    double below = std::erfc(-v / std::sqrt(2.0)) / 2;
    double density = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
    // The exponent −x²/2 is off by three roundings of itself, and so is the
    // exponential, relatively; the rest are some sixteen roundings and the
    // interpolation, which is less than one. Below e^−87 nothing is told
    // apart.
    double error = 18 + 3 * v * v / 2;
    double tail = std::min(below, 1 - below);
    expectNear(y[i], v * below, 1,
               std::abs(v) * (2 * below + error * tail + 1e-30), i);
    expectNear(slope[i], below + v * density, 1,
               2 * below + 2 * std::abs(v) * density +
                   error * (tail + std::abs(v) * density) +
                   (1 + std::abs(v)) * 1e-30,
               i);
  }
  x[3] = std::numeric_limits<float>::quiet_NaN();
  kernels.run(both, {x.data(), z.data(), slope.data()}, 1);
  EXPECT_TRUE(std::isnan(z[3]) && std::isnan(slope[3]));
}

TEST_P(KernelTest, LengthsEndAtTheLastRealToken) {
  std::vector<int32_t> tokens = {5, -1, 2,  -1, -1, -1, -1, -1,
                                 7, -1, -1, -1, 0,  0,  0,  0};
  size_t number = kernels.add(Lengths{4, 4, -1}, {4});
  size_t shorter = kernels.add(Lengths{4, 4, -1}, {2});
  size_t never = kernels.add(Lengths{4, 4, int64_t(1) << 32 | 7}, {4});
  ASSERT_EQ(kernels.compile(), "");
  std::vector<int32_t> result(4);
  kernels.run(number, {tokens.data(), result.data()}, 2);
  EXPECT_EQ(result, (std::vector<int32_t>{3, 1, 1, 4}));
  kernels.run(shorter, {tokens.data(), result.data()}, 2);
  EXPECT_EQ(result, (std::vector<int32_t>{1, 1, 1, 2}));
  kernels.run(never, {tokens.data(), result.data()}, 1);
  EXPECT_EQ(result, (std::vector<int32_t>{4, 4, 4, 4}));
}

} // namespace
