//===- NormKernelsTest.cpp - Normalisation, whole and sharded ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

#include <algorithm>
#include <cmath>

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

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

TEST_P(KernelTest, LayerNormAndItsGradient) {
  struct Numbers {
    size_t grad, gradResidual, params;
  };
  std::vector<Numbers> others;
  forSizes(
      [&](int64_t rows, int64_t cols) {
        others.push_back({kernels.add(LayerNormGrad{rows, cols, false}),
                          kernels.add(LayerNormGrad{rows, cols, true}),
                          kernels.add(NormParamGrad{rows, cols})});
        return kernels.add(LayerNorm{rows, cols, 1e-5});
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

TEST_P(KernelTest, MomentsOfPartsMergeToThoseOfTheRow) {
  // Two ranks of 37 columns, the second with 30 real ones, a third with none.
  const int64_t rows = 6, n = 37, real = 30;
  size_t first = kernels.add(RowMoments{rows, n}, {n});
  size_t second = kernels.add(RowMoments{rows, n}, {real});
  size_t third = kernels.add(RowMoments{rows, n}, {0});
  size_t merge = kernels.add(MergeMoments{rows, {n, real, 0}, 1e-5});
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

TEST_P(KernelTest, AShardedRowsGradientIsThatOfTheWholeRow) {
  // A row of 61 real elements as two parts of 37, the second padded.
  const int64_t rows = 5, n = 37, size = 61, rest = size - n;
  size_t normalize = kernels.add(Normalize{rows, n});
  size_t sums = kernels.add(NormGradSums{rows, n});
  size_t apply[2] = {kernels.add(NormGradApply{rows, n, size, false}, {n}),
                     kernels.add(NormGradApply{rows, n, size, true}, {rest})};
  size_t whole = kernels.add(LayerNormGrad{rows, size, false});
  size_t forward = kernels.add(LayerNorm{rows, size, 1e-5});
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
