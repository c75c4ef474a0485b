//===- KernelLibraryTest.cpp - Kernels against plain formulas ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace mlir::optimus::kernel_test;
using mlir::optimus::KernelLaunch;

namespace {

struct Row {
  double mean = 0, squares = 0, magnitude = 0;
};

Row momentsOf(const Floats &x, size_t begin, int64_t count) {
  Row row;
  for (int64_t j = 0; j < count; ++j) {
    row.mean += x[begin + j];
    row.magnitude = std::max(row.magnitude, std::abs(double(x[begin + j])));
  }
  row.mean /= std::max<int64_t>(count, 1);
  for (int64_t j = 0; j < count; ++j)
    row.squares += std::pow(x[begin + j] - row.mean, 2);
  return row;
}

} // namespace

TEST_F(KernelTest, OneFunctionForEqualKernels) {
  KernelLaunch a = library.add(4, 8), b = library.add(4, 8);
  EXPECT_EQ(a.kernel, b.kernel);
  EXPECT_NE(a.kernel, library.mul(4, 8).kernel);
  EXPECT_NE(a.kernel, library.add(8, 4).kernel);
  EXPECT_NE(library.layerNorm(4, 8, 1e-5).kernel,
            library.layerNorm(4, 8, 1e-6).kernel);
  EXPECT_NE(library.adamw(8, true).kernel, library.adamw(8, false).kernel);
}

TEST_F(KernelTest, ALibraryHasATableAndItsKernels) {
  size_t number = kernels.add(library.gelu(8));
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

TEST_F(KernelTest, AddAndMulRepeatTheRightSide) {
  std::vector<size_t> products;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        products.push_back(kernels.add(library.mul(rows, cols)));
        return kernels.add(library.add(rows, cols));
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

TEST_F(KernelTest, AddWorksInPlace) {
  size_t number = kernels.add(library.add(9, 100));
  ASSERT_EQ(kernels.compile(), "");
  Floats lhs = random(900), rhs = random(100), before = lhs;
  kernels.run(number, {lhs.data(), rhs.data(), lhs.data()}, 3);
  for (size_t i = 0; i < lhs.size(); ++i)
    EXPECT_EQ(lhs[i], before[i] + rhs[i % 100]);
}

TEST_F(KernelTest, SumLeadingAddsColumns) {
  forSizes(
      [&](int64_t rows, int64_t cols) {
        return kernels.add(library.sumLeading(rows, cols));
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

TEST_F(KernelTest, GeluAndItsSlope) {
  std::vector<size_t> slopes, inPlace;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        slopes.push_back(kernels.add(library.geluWithSlope(rows * cols)));
        return kernels.add(library.gelu(rows * cols));
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
          // A relative error in 2u of four roundings becomes one of 2u times
          // that in the exponential, which decays faster than 2u grows where
          // it matters: |2u|·min(s, 1−s) is below 0.3.
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

TEST_F(KernelTest, LayerNormAndItsGradient) {
  struct Numbers {
    size_t grad, gradResidual, params;
  };
  std::vector<Numbers> others;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        others.push_back({kernels.add(library.layerNormGrad(rows, cols, false)),
                          kernels.add(library.layerNormGrad(rows, cols, true)),
                          kernels.add(library.normParamGrad(rows, cols))});
        return kernels.add(library.layerNorm(rows, cols, 1e-5));
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t n) mutable {
        // A mean far from zero, where E[x²] − E[x]² would lose all digits.
        Floats x = random(rows * n, 50), gamma = random(n), beta = random(n);
        Floats y = unset(rows * n), mean = unset(rows), rstd = unset(rows);
        run(number, x, gamma, beta, y, mean, rstd);
        Floats dy = random(rows * n), residual = random(rows * n);
        Floats dx = unset(rows * n), dx2 = unset(rows * n);
        Floats dgamma = unset(n), dbeta = unset(n);
        Numbers other = others[next++];
        run(other.grad, dy, x, mean, rstd, gamma, dx);
        run(other.gradResidual, dy, x, mean, rstd, gamma, residual, dx2);
        run(other.params, dy, x, mean, rstd, dgamma, dbeta);

        std::vector<double> wantGamma(n), wantBeta(n), sizeGamma(n),
            sizeBeta(n);
        for (int64_t i = 0; i < rows; ++i) {
          Row row = momentsOf(x, i * n, n);
          double inverse = 1 / std::sqrt(row.squares / n + 1e-5);
          expectNear(mean[i], row.mean, n + 1, row.magnitude, at(rows, n, i));
          // The deviations carry the rounding error of the mean.
          double noise = (n + 2) * row.magnitude * inverse;
          expectNear(rstd[i], inverse, n + 4 + noise, inverse, at(rows, n, i));
          // From here on with the mean and rstd that the kernel was given.
          double a = 0, b = 0, sizes = 0;
          for (int64_t j = 0; j < n; ++j) {
            size_t e = i * n + j;
            double normal = (x[e] - double(mean[i])) * rstd[i];
            double size = (row.magnitude + std::abs(mean[i])) * rstd[i];
            expectNear(y[e], normal * gamma[j] + beta[j], 6,
                       size * std::abs(gamma[j]) + std::abs(beta[j]),
                       at(rows, n, e));
            a += double(dy[e]) * gamma[j] / n;
            b += double(dy[e]) * gamma[j] * normal / n;
            sizes += std::abs(dy[e] * gamma[j]) * (1 + size) / n;
            wantGamma[j] += dy[e] * normal;
            wantBeta[j] += dy[e];
            sizeGamma[j] += std::abs(dy[e]) * size;
            sizeBeta[j] += std::abs(dy[e]);
          }
          for (int64_t j = 0; j < n; ++j) {
            size_t e = i * n + j;
            double normal = (x[e] - double(mean[i])) * rstd[i];
            double want = rstd[i] * (double(dy[e]) * gamma[j] - a - normal * b);
            double size = rstd[i] * (std::abs(dy[e] * gamma[j]) +
                                     sizes * (1 + std::abs(normal)));
            expectNear(dx[e], want, n + 8, size, at(rows, n, e));
            expectNear(dx2[e], want + residual[e], n + 9,
                       size + std::abs(residual[e]), at(rows, n, e));
          }
        }
        for (int64_t j = 0; j < n; ++j) {
          expectNear(dgamma[j], wantGamma[j], rows + 4, sizeGamma[j],
                     at(rows, n, j));
          expectNear(dbeta[j], wantBeta[j], rows, sizeBeta[j], at(rows, n, j));
        }
      });
}

TEST_F(KernelTest, MomentsOfPartsMergeToThoseOfTheRow) {
  // Two ranks of 37 columns, the second with 30 real ones, a third with none.
  const int64_t rows = 6, n = 37, real = 30;
  size_t first = kernels.add(library.rowMoments(rows, n), {n});
  size_t second = kernels.add(library.rowMoments(rows, n), {real});
  size_t third = kernels.add(library.rowMoments(rows, n), {0});
  size_t merge = kernels.add(library.mergeMoments(rows, {n, real, 0}, 1e-5));
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(rows * n, 50), z = random(rows * n, 40);
  Floats a = unset(rows * 2), b = unset(rows * 2), c = unset(rows * 2);
  run(first, x, a);
  run(second, z, b);
  run(third, z, c);
  Floats all;
  for (int64_t i = 0; i < rows; ++i)
    for (const Floats *part : {&a, &b, &c})
      all.insert(all.end(), part->begin() + 2 * i, part->begin() + 2 * i + 2);
  Floats mean = unset(rows), rstd = unset(rows);
  run(merge, all, mean, rstd);
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_EQ(c[2 * i], 0.0f);
    EXPECT_EQ(c[2 * i + 1], 0.0f);
    Floats row(x.begin() + i * n, x.begin() + (i + 1) * n);
    row.insert(row.end(), z.begin() + i * n, z.begin() + i * n + real);
    Row whole = momentsOf(row, 0, n + real);
    expectNear(mean[i], whole.mean, n + 8, whole.magnitude, at(rows, n, i));
    double inverse = 1 / std::sqrt(whole.squares / (n + real) + 1e-5);
    double noise = (n + 8) * whole.magnitude * inverse;
    expectNear(rstd[i], inverse, n + 8 + noise, inverse, at(rows, n, i));
  }
}

TEST_F(KernelTest, AShardedRowsGradientIsThatOfTheWholeRow) {
  // A row of 61 real elements as two parts of 37, the second padded.
  const int64_t rows = 5, n = 37, size = 61, rest = size - n;
  size_t normalize = kernels.add(library.normalize(rows, n));
  size_t sums = kernels.add(library.normGradSums(rows, n));
  size_t apply[2] = {
      kernels.add(library.normGradApply(rows, n, size, false), {n}),
      kernels.add(library.normGradApply(rows, n, size, true), {rest})};
  size_t whole = kernels.add(library.layerNormGrad(rows, size, false));
  size_t forward = kernels.add(library.layerNorm(rows, size, 1e-5));
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(rows * size), dy = random(rows * size);
  Floats gamma = random(size), beta = random(size), residual = random(rows * n);
  Floats y = unset(rows * size), mean = unset(rows), rstd = unset(rows);
  Floats dx = unset(rows * size), total(rows * 2, 0.0f);
  run(forward, x, gamma, beta, y, mean, rstd);
  run(whole, dy, x, mean, rstd, gamma, dx);
  auto part = [&](const Floats &from, int64_t lines, int64_t which) {
    Floats result(lines * n, 0.0f);
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = 0; j < (which ? rest : n); ++j)
        result[i * n + j] = from[i * size + which * n + j];
    return result;
  };
  Floats xs[2], dys[2], gammas[2];
  for (int p : {0, 1}) {
    xs[p] = part(x, rows, p);
    dys[p] = part(dy, rows, p);
    gammas[p] = part(gamma, 1, p);
    Floats betas = part(beta, 1, p), out = unset(rows * n);
    run(normalize, xs[p], mean, rstd, gammas[p], betas, out);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j)
        // The same expression on the same numbers, but perhaps with other
        // instructions at the end of a row.
        expectNear(out[i * n + j],
                   p * n + j < size ? y[i * size + p * n + j] : 0.0f, 6, 10,
                   at(rows, n, i * n + j));
    Floats partial = unset(rows * 2);
    run(sums, dys[p], xs[p], mean, rstd, gammas[p], partial);
    for (size_t i = 0; i < total.size(); ++i)
      total[i] += partial[i];
  }
  for (int p : {0, 1}) {
    Floats out = unset(rows * n);
    if (p == 0)
      run(apply[p], dys[p], xs[p], mean, rstd, gammas[p], total, out);
    else
      run(apply[p], dys[p], xs[p], mean, rstd, gammas[p], total, residual, out);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        size_t e = i * n + j;
        bool isReal = p * n + j < size;
        double want = isReal ? dx[i * size + p * n + j] : 0.0;
        if (p == 1 && isReal)
          want += residual[e];
        expectNear(out[e], want, 2 * size, 10, at(rows, n, e));
        if (!isReal) {
          EXPECT_EQ(out[e], 0.0f);
        }
      }
  }
}

TEST_F(KernelTest, EmbeddingLooksUpAndAccumulates) {
  struct Numbers {
    size_t zero, add;
  };
  std::vector<Numbers> others;
  const int64_t tableRows = 11, first = 20, pad = 25;
  forSizes(
      [&](int64_t count, int64_t cols) {
        others.push_back(
            {kernels.add(
                 library.embeddingGrad(count, tableRows, cols, true, pad),
                 {first}),
             kernels.add(library.embeddingGrad(count, tableRows, cols, false),
                         {first})});
        return kernels.add(library.embedding(count, tableRows, cols), {first});
      },
      [&, next = size_t(0)](size_t number, int64_t count,
                            int64_t cols) mutable {
        Floats table = random(tableRows * cols), dy = random(count * cols);
        Ints tokens(count);
        for (int64_t i = 0; i < count; ++i)
          tokens[i] = i % 7 == 3 ? -1 : 15 + (i * 5) % 25;
        Floats out = unset(count * cols);
        run(number, table, tokens, out);
        Floats zeroed = unset(tableRows * cols), added = table;
        Numbers other = others[next++];
        run(other.zero, dy, tokens, zeroed);
        run(other.add, dy, tokens, added);
        Floats wantZeroed(tableRows * cols, 0.0f), wantAdded = table;
        for (int64_t i = 0; i < count; ++i) {
          int64_t row = tokens[i] - first;
          bool inside = row >= 0 && row < tableRows;
          for (int64_t j = 0; j < cols; ++j) {
            EXPECT_EQ(out[i * cols + j], inside ? table[row * cols + j] : 0.0f);
            if (inside) {
              // In the order of the tokens: the same bits.
              if (tokens[i] != pad)
                wantZeroed[row * cols + j] += dy[i * cols + j];
              wantAdded[row * cols + j] += dy[i * cols + j];
            }
          }
        }
        EXPECT_EQ(zeroed, wantZeroed) << at(count, cols, 0);
        EXPECT_EQ(added, wantAdded) << at(count, cols, 0);
      });
}

TEST_F(KernelTest, LengthsEndWithWhatIsNoPadding) {
  const int64_t rows = 4, cols = 5, pad = 3, real = 4;
  size_t plain = kernels.add(library.lengths(rows, cols, pad), {real});
  size_t masked = kernels.add(library.lengths(rows, cols, pad, true), {real});
  ASSERT_EQ(kernels.compile(), "");
  // The last column is padding of the mesh.
  Ints tokens = {7, 3, 7, 3, 7, 3, 3, 3, 3, 7, 3, 7, 3, 3, 7, 7, 3, 3, 7, 7};
  Ints targets(rows * cols, -1);
  targets[8] = targets[11] = targets[14] = 0;
  Ints found(rows, -1), foundMasked(rows, -1);
  run(plain, tokens, found);
  run(masked, tokens, targets, foundMasked);
  EXPECT_EQ(found, (Ints{3, 1, 2, 4}));
  EXPECT_EQ(foundMasked, (Ints{3, 4, 2, 4}));
}

TEST_F(KernelTest, HeadLossInPartsAndWhole) {
  struct Numbers {
    size_t max, exp, fused, loss, grad, fusedGrad;
    int64_t real;
  };
  std::vector<Numbers> all;
  const int64_t first = 3;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t real = std::max<int64_t>(1, cols - cols / 4);
        all.push_back(
            {kernels.add(library.rowMax(rows, cols), {real}),
             kernels.add(library.expSum(rows, cols), {first, real}),
             kernels.add(library.softmaxSums(rows, cols), {first, real}),
             kernels.add(library.tokenLoss(rows)),
             kernels.add(library.logitsGrad(rows, cols), {first}),
             kernels.add(library.softmaxSums(rows, cols, /*withGrad=*/true),
                         {first, real}),
             real});
        return all.size() - 1;
      },
      [&](size_t number, int64_t rows, int64_t cols) {
        const Numbers &n = all[number];
        Floats logits = random(rows * cols, 0, 10), max = unset(rows);
        Ints targets(rows);
        for (int64_t i = 0; i < rows; ++i)
          targets[i] = i % 5 == 4 ? -1 : first + (i * 13) % n.real;
        Floats exps = logits, sums = unset(rows * 2);
        run(n.max, logits, max);
        run(n.exp, exps, max, targets, sums);
        Floats exps2 = logits, sums2 = unset(rows * 2);
        run(n.fused, exps2, targets, sums2);
        EXPECT_EQ(exps, exps2);
        EXPECT_EQ(sums, sums2);
        Floats losses = unset(rows), grads = exps;
        run(n.loss, sums, targets, losses);
        run(n.grad, grads, sums, targets);
        Floats grads2 = logits;
        run(n.fusedGrad, grads2, targets, sums2);
        EXPECT_EQ(grads, grads2);
        EXPECT_EQ(sums, sums2);
        for (int64_t i = 0; i < rows; ++i) {
          const float *row = &logits[i * cols];
          double top = *std::max_element(row, row + n.real), total = 0;
          EXPECT_EQ(max[i], float(top));
          for (int64_t j = 0; j < n.real; ++j)
            total += std::exp(row[j] - top);
          // x − max is rounded once, and with it the exponential off by that
          // times |x − max|, at most 100 here.
          expectNear(sums[2 * i], total, n.real + 110, total,
                     at(rows, cols, i));
          bool isReal = targets[i] >= 0;
          double loss =
              isReal ? std::log(total) + top - row[targets[i] - first] : 0;
          expectNear(losses[i], loss, n.real + 110, 100, at(rows, cols, i));
          for (int64_t j = 0; j < cols; ++j) {
            size_t e = i * cols + j;
            double p = j < n.real ? std::exp(row[j] - top) / total : 0;
            double hot = isReal && targets[i] - first == j ? 1 : 0;
            expectNear(grads[e], isReal ? p - hot : 0, n.real + 220,
                       p + hot + 1e-30, at(rows, cols, e));
          }
        }
      });
}

TEST_F(KernelTest, ARankWithoutRealColumnsAddsNothing) {
  size_t max = kernels.add(library.rowMax(2, 20), {0});
  size_t exp = kernels.add(library.expSum(2, 20), {40, 0});
  ASSERT_EQ(kernels.compile(), "");
  Floats logits = random(40), top = unset(2), sums = unset(4);
  Ints targets = {41, 5};
  run(max, logits, top);
  EXPECT_EQ(top[0], std::numeric_limits<float>::lowest());
  Floats global = {2.0f, 3.0f};
  run(exp, logits, global, targets, sums);
  EXPECT_EQ(sums, Floats(4, 0.0f));
  EXPECT_EQ(logits, Floats(40, 0.0f));
}

TEST_F(KernelTest, NotANumberReachesTheLoss) {
  size_t fused = kernels.add(library.softmaxSums(1, 20), {0, 20});
  size_t loss = kernels.add(library.tokenLoss(1));
  ASSERT_EQ(kernels.compile(), "");
  Floats logits = random(20), sums = unset(2), losses(1, 0.0f);
  logits[6] = std::numeric_limits<float>::quiet_NaN();
  Ints targets = {1};
  run(fused, logits, targets, sums);
  run(loss, sums, targets, losses);
  EXPECT_TRUE(std::isnan(losses[0]));
}

TEST_F(KernelTest, SumsOverAllElements) {
  struct Numbers {
    size_t count, squares, final, sqrt;
    int64_t n;
  };
  std::vector<Numbers> all;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        int64_t n = rows * cols;
        all.push_back(
            {kernels.add(library.countReal(n)),
             kernels.add(library.sumSquares(n)),
             kernels.add(library.sumPartials(library.getNumPartials(n))),
             kernels.add(library.sqrt(n)), n});
        return kernels.add(library.sumTokens(n));
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t cols) mutable {
        Numbers other = all[next++];
        int64_t n = other.n;
        Floats x = random(n), sum = unset(1), count = unset(1), norm = unset(1);
        Ints targets(n);
        int32_t real = 0;
        for (int64_t i = 0; i < n; ++i)
          real += (targets[i] = i % 3 - 1) >= 0;
        std::vector<double> partials(library.getNumPartials(n));
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

TEST_F(KernelTest, SumSquaresHasPartials) {
  const int64_t n = 40000;
  ASSERT_GT(library.getNumPartials(n), 1);
  size_t squares = kernels.add(library.sumSquares(n));
  size_t final =
      kernels.add(library.sumPartials(library.getNumPartials(n)));
  ASSERT_EQ(kernels.compile(), "");
  Floats x = random(n), sum = unset(1);
  std::vector<double> partials(library.getNumPartials(n));
  run(squares, x, partials);
  run(final, partials, sum);
  double want = 0;
  for (float value : x)
    want += double(value) * value;
  expectNear(sum[0], want, 1.001, want, "sum");
}

TEST_F(KernelTest, ClipAveragesAndLimits) {
  size_t number = kernels.add(library.clip());
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

TEST_F(KernelTest, AdamWUpdatesInPlace) {
  for (int64_t n : {1, 37, 4096, 10000})
    for (bool decay : {false, true})
      kernels.add(library.adamw(n, decay));
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
