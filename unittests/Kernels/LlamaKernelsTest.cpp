//===- LlamaKernelsTest.cpp - What Llama adds to GPT-2's kernels ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

TEST_P(KernelTest, SwigluAndItsGradient) {
  std::vector<size_t> gradients;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        gradients.push_back(kernels.add(kernels.elementwise<SwigluGradOp>(
            {rows * cols, rows * cols, rows * cols})));
        return kernels.add(
            kernels.elementwise<SwigluOp>({rows * cols, rows * cols}));
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        size_t n = rows * cols;
        Floats gate = random(n, 0, 3), up = random(n), dy = random(n),
               y = unset(n), dgate = unset(n), dup = unset(n);
        // Far out, where the exponential saturates, and at zero.
        const float special[] = {0.0f, 40.0f, -40.0f, 1e4f, -1e4f};
        std::copy_n(special, std::min<size_t>(n, 5), gate.begin());
        run(number, gate, up, y);
        size_t gradient = gradients[next++];
        run(gradient, dy, gate, up, dgate, dup);
        for (size_t i = 0; i < n; ++i) {
          double g = gate[i], s = 1 / (1 + std::exp(-g));
          double rest = 1 / (1 + std::exp(g)), scale = std::abs(dy[i]);
          // The exponential is clamped to e^88: instead of 0 the result is as
          // large as 1e4·e^(−88) = 6e-35 times up and dy, covered by roundings
          // of 1e-25.
          expectNear(y[i], g * s * up[i], 10, std::abs(g * s * up[i]) + 1e-25,
                     at(rows, cols, i));
          expectNear(dup[i], dy[i] * g * s, 10, scale * std::abs(g * s) + 1e-25,
                     at(rows, cols, i));
          expectNear(dgate[i], dy[i] * up[i] * (s + g * s * rest), 16,
                     scale * std::abs(up[i]) * (s + std::abs(g) * s * rest) +
                         1e-25,
                     at(rows, cols, i));
        }
        // Each gradient may take the place of what it belongs to.
        Floats g = gate, u = up;
        kernels.run(gradient,
                    {dy.data(), g.data(), u.data(), g.data(), u.data()}, 2);
        EXPECT_EQ(g, dgate);
        EXPECT_EQ(u, dup);
      });
}

namespace {
/// Σ a·b·weight of a row and of the terms' magnitudes; no weight if it is
/// empty.
struct Dot {
  Dot(const Floats &a, const Floats &b, const Floats &weight, size_t row,
      size_t cols) {
    for (size_t j = 0; j < cols; ++j) {
      double term = double(a[row * cols + j]) * b[row * cols + j] *
                    (weight.empty() ? 1 : weight[j]);
      sum += term;
      magnitude += std::abs(term);
    }
  }
  double sum = 0, magnitude = 0;
};
} // namespace

TEST_P(KernelTest, RmsNormInPartsAndWhole) {
  const double epsilon = 1e-6;
  struct Numbers {
    size_t dot, rstd, scale;
  };
  std::vector<Numbers> others;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        others.push_back({kernels.add(RowDot{rows, cols, false}),
                          kernels.add(RmsRstd{rows, cols, epsilon}),
                          kernels.add(RmsScale{rows, cols})});
        return kernels.add(RmsNorm{rows, cols, epsilon});
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        Numbers parts = others[next++];
        size_t n = rows * cols;
        Floats x = random(n, 1, 2), gamma = random(cols), y = unset(n),
               rstd = unset(rows), z = unset(n), squares = unset(rows);
        run(number, x, gamma, y, rstd);
        run(parts.dot, x, x, squares);
        for (int64_t i = 0; i < rows; ++i) {
          Dot dot(x, x, {}, i, cols);
          double expected = 1 / std::sqrt(dot.sum / cols + epsilon);
          expectNear(squares[i], dot.sum, cols + 3, dot.magnitude,
                     at(rows, cols, i));
          expectNear(rstd[i], expected, cols + 8, expected, at(rows, cols, i));
          for (int64_t j = 0; j < cols; ++j) {
            double element = x[i * cols + j] * expected * gamma[j];
            expectNear(y[i * cols + j], element, cols + 10, std::abs(element),
                       at(rows, cols, i * cols + j));
          }
        }
        run(parts.rstd, squares, rstd);
        run(parts.scale, x, rstd, gamma, z);
        for (size_t i = 0; i < n; ++i)
          expectNear(z[i], y[i], 2 * cols + 20, std::abs(y[i]),
                     at(rows, cols, i));
        Floats over = x;
        kernels.run(number,
                    {over.data(), gamma.data(), over.data(), rstd.data()}, 2);
        EXPECT_EQ(over, y);
      });
}

TEST_P(KernelTest, RmsNormGradient) {
  struct Numbers {
    size_t dot, sums, residual, params;
  };
  // A row sharded in three of which this is a part.
  std::vector<Numbers> others;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        others.push_back(
            {kernels.add(RowDot{rows, cols, true}),
             kernels.add(RmsNormGrad{rows, cols, 3 * cols, true, true}),
             kernels.add(RmsNormGrad{rows, cols, cols, false, true}),
             kernels.add(RmsParamGrad{rows, cols})});
        return kernels.add(RmsNormGrad{rows, cols, cols, false, false});
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        Numbers parts = others[next++];
        size_t n = rows * cols;
        Floats x = random(n, 1, 2), dy = random(n), gamma = random(cols),
               rstd = random(rows, 1, 0.1), residual = random(n), dx = unset(n),
               summed = unset(n), ofPart = unset(n), sums = unset(rows),
               dgamma = unset(cols);
        run(number, dy, x, rstd, gamma, dx);
        run(parts.residual, dy, x, rstd, gamma, residual, summed);
        run(parts.dot, dy, x, gamma, sums);
        run(parts.sums, dy, x, rstd, gamma, sums, residual, ofPart);
        for (int64_t i = 0; i < rows; ++i) {
          Dot dot(dy, x, gamma, i, cols);
          expectNear(sums[i], dot.sum, cols + 4, dot.magnitude,
                     at(rows, cols, i));
          double r = rstd[i];
          for (int64_t j = 0; j < cols; ++j) {
            size_t e = i * cols + j;
            double first = r * dy[e] * gamma[j];
            double factor = x[e] * r * r * r / cols;
            double magnitude =
                std::abs(first) + std::abs(factor) * dot.magnitude;
            expectNear(dx[e], first - factor * dot.sum, cols + 12, magnitude,
                       at(rows, cols, e));
            magnitude += std::abs(residual[e]);
            expectNear(summed[e], first - factor * dot.sum + residual[e],
                       cols + 14, magnitude, at(rows, cols, e));
            expectNear(ofPart[e], first - factor * dot.sum / 3 + residual[e],
                       cols + 14, magnitude, at(rows, cols, e));
          }
        }
        run(parts.params, dy, x, rstd, dgamma);
        for (int64_t j = 0; j < cols; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < rows; ++i) {
            double term = double(dy[i * cols + j]) * x[i * cols + j] * rstd[i];
            sum += term;
            magnitude += std::abs(term);
          }
          expectNear(dgamma[j], sum, rows + 4, magnitude, at(rows, cols, j));
        }
        for (Floats *source : {&dy, &x}) {
          Floats kept = *source;
          kernels.run(
              number,
              {dy.data(), x.data(), rstd.data(), gamma.data(), source->data()},
              2);
          EXPECT_EQ(*source, dx);
          *source = kept;
        }
      });
}

/// One token turns as the last of a sequence that is as long as a cache.
TEST_P(KernelTest, RotaryTurnsByPositionsInACache) {
  const int64_t capacity = 9, heads = 2, dim = 6, width = heads * dim;
  size_t whole = kernels.add(Rotary{1, capacity, heads, dim, 1e4, false});
  Rotary one{1, 1, heads, dim, 1e4, false};
  one.hasPositions = true;
  one.capacity = capacity;
  size_t single = kernels.add(one);
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(capacity * width), y = unset(x.size());
  run(whole, x, y);
  for (int32_t position : {0, 4, 8}) {
    Floats token(x.begin() + position * width,
                 x.begin() + (position + 1) * width);
    Floats turned = unset(width), expected(y.begin() + position * width,
                                           y.begin() + (position + 1) * width);
    Ints positions = {position};
    run(single, token, positions, turned);
    EXPECT_EQ(turned, expected) << position;
  }
}

/// Frequencies that follow from a base are no others than the base's.
TEST_P(KernelTest, RotaryTurnsByFrequencies) {
  const int64_t seq = 9, heads = 2, dim = 6;
  Rotary plain{1, seq, heads, dim, 100.0, false}, listed = plain;
  for (int64_t i = 0; i != dim / 2; ++i)
    listed.frequencies.push_back(std::pow(100.0, -2.0 * i / dim));
  Rotary slow = listed;
  for (double &frequency : slow.frequencies)
    frequency /= 4;
  const size_t first = kernels.add(plain), second = kernels.add(listed),
               third = kernels.add(slow);
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(seq * heads * dim);
  Floats y = unset(x.size()), z = unset(x.size()), slowed = unset(x.size());
  run(first, x, y);
  run(second, x, z);
  run(third, x, slowed);
  EXPECT_EQ(y, z);
  // At position 4 as otherwise at 1, of the same token.
  const int64_t width = heads * dim;
  Floats moved = x;
  std::copy_n(x.begin() + 4 * width, width, moved.begin() + width);
  run(first, moved, y);
  EXPECT_EQ(Floats(y.begin() + width, y.begin() + 2 * width),
            Floats(slowed.begin() + 4 * width, slowed.begin() + 5 * width));
}

/// Each token turns as one at its position would, were there no positions.
TEST_P(KernelTest, RotaryTurnsByPositions) {
  Rotary plain{1, 9, 2, 8, 1e4, false}, placed = plain;
  placed.hasPositions = true;
  const size_t first = kernels.add(plain), second = kernels.add(placed);
  ASSERT_EQ(kernels.compile(), "");
  Ints positions = {0, 1, 2, 0, 0, 1, 8, 7, 3};
  const size_t width = 16;
  Floats x = random(9 * width), y = unset(x.size());
  kernels.run(second, {x.data(), positions.data(), y.data()}, 1);
  for (size_t token = 0; token < 9; ++token) {
    Floats moved(9 * width, 0), turned = unset(x.size());
    const size_t place = positions[token] * width;
    std::copy_n(x.begin() + token * width, width, moved.begin() + place);
    run(first, moved, turned);
    EXPECT_TRUE(std::equal(y.begin() + token * width,
                           y.begin() + (token + 1) * width,
                           turned.begin() + place))
        << token;
  }
}

TEST_P(KernelTest, RotaryTurnsPairsAndBack) {
  struct Shape {
    int64_t batch, seq, heads, dim;
    double theta;
    size_t forward = 0, inverse = 0;
  };
  Shape shapes[] = {{1, 1, 1, 2, 1e4},
                    {2, 5, 3, 6, 50},
                    {3, 7, 2, 64, 1e4},
                    {1, 3000, 1, 34, 1e4}};
  for (Shape &s : shapes) {
    s.forward =
        kernels.add(Rotary{s.batch, s.seq, s.heads, s.dim, s.theta, false});
    s.inverse =
        kernels.add(Rotary{s.batch, s.seq, s.heads, s.dim, s.theta, true});
  }
  ASSERT_EQ(kernels.compile(), "");
  for (const Shape &s : shapes) {
    int64_t rows = s.batch * s.seq * s.heads, half = s.dim / 2;
    Floats x = random(rows * s.dim), y = unset(x.size()), z = unset(x.size());
    run(s.forward, x, y);
    run(s.inverse, y, z);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < half; ++i) {
        int64_t position = row / s.heads % s.seq;
        double angle = position * std::pow(s.theta, -2.0 * i / s.dim);
        size_t low = row * s.dim + i, high = low + half;
        double magnitude = std::abs(x[low]) + std::abs(x[high]);
        std::string where = at(rows, s.dim, low);
        // Tables, products and the sum: a rounding each.
        expectNear(y[low], std::cos(angle) * x[low] - std::sin(angle) * x[high],
                   4, magnitude, where);
        expectNear(y[high],
                   std::cos(angle) * x[high] + std::sin(angle) * x[low], 4,
                   magnitude, where);
        expectNear(z[low], x[low], 12, magnitude, where);
        expectNear(z[high], x[high], 12, magnitude, where);
      }
    Floats over = x;
    kernels.run(s.forward, {over.data(), over.data()}, 2);
    EXPECT_EQ(over, y);
  }
}
