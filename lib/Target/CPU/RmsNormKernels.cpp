//===- RmsNormKernels.cpp - Normalisation by the root mean square ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// The rows of n elements of a kernel's operands.
struct Row {
  Row(KernelBuilder &k, Value row, int64_t n)
      : k(k), base(k.mulIndex(row, k.index(n))), n(n) {}

  Num load(int64_t buffer, Value at, Type type) {
    return k.load(buffer, k.addIndex(base, at), type);
  }
  void store(Num value, int64_t buffer, Value at) {
    k.store(value, buffer, k.addIndex(base, at));
  }
  /// Σ a·b·weight; no weight if it is negative.
  Num dot(int64_t a, int64_t b, int64_t weight) {
    return k.sums(n, 1, [&](Value at, Type type) {
      Num term = load(a, at, type) * load(b, at, type);
      if (weight >= 0)
        term = term * k.load(weight, at, type);
      return KernelBuilder::Terms{term};
    })[0];
  }

  KernelBuilder &k;
  Value base;
  int64_t n;
};
} // namespace

static Num getRstd(KernelBuilder &k, Num squares, int64_t size,
                   double epsilon) {
  return 1.0 / k.sqrt(squares * (1.0 / size) + epsilon);
}

KernelLaunch CpuKernels::rmsNorm(int64_t rows, int64_t n, double epsilon) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, n, rows * n, rows});
  auto kernel = getOrBuild(
      nameOf("rms_norm", rows, n) + "_" + bitsOf(epsilon), types,
      [&](KernelBuilder &k) {
        k.iterate([&](Value index) {
          Row row(k, index, n);
          Num rstd = getRstd(k, row.dot(0, 0, -1), n, epsilon);
          k.store(rstd, 3, index);
          k.lanes(n, [&](Value at, Type type) {
            row.store(row.load(0, at, type) * rstd * k.load(1, at, type), 2,
                      at);
          });
        });
      });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::rmsNormGrad(int64_t rows, int64_t n, int64_t size,
                                     bool hasSums, bool hasResidual) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, n});
  if (hasSums)
    types.f32({rows});
  if (hasResidual)
    types.f32({rows * n});
  types.f32({rows * n});
  int64_t residual = hasSums ? 5 : 4;
  int64_t result = hasResidual ? residual + 1 : residual;
  std::string name = (Twine("rms_norm_grad") + (hasSums ? "_sums" : "") +
                      (hasResidual ? "_residual" : "") + "_" + Twine(size))
                         .str();
  auto kernel = getOrBuild(nameOf(name, rows, n), types, [&](KernelBuilder &k) {
    k.iterate([&](Value index) {
      Row row(k, index, n);
      Num rstd = k.loadScalar(2, index);
      Num sum = hasSums ? k.loadScalar(4, index) : row.dot(0, 1, 3);
      Num slope = sum * (1.0 / size) * (rstd * rstd);
      k.lanes(n, [&](Value at, Type type) {
        Num dx = (row.load(0, at, type) * k.load(3, at, type) -
                  row.load(1, at, type) * slope) *
                 rstd;
        if (hasResidual)
          dx = dx + row.load(residual, at, type);
        row.store(dx, result, at);
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::rmsParamGrad(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, n});
  auto kernel = getOrBuild(
      nameOf("rms_param_grad", rows, n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value i) {
          k.columns(i, n, [&](Value column, Type type) {
            auto sums = columnSums(k, rows, 1, type, [&](Value row, Type type) {
              Value at = k.addIndex(k.mulIndex(row, k.index(n)), column);
              Num x = k.load(1, at, type) * k.loadScalar(2, row);
              return KernelBuilder::Terms{k.load(0, at, type) * x};
            });
            k.store(sums[0], 3, column);
          });
        });
      });
  return {kernel, KernelBuilder::getNumColumnBlocks(n), 1};
}

KernelLaunch CpuKernels::rowDot(int64_t rows, int64_t n, bool hasWeight) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n});
  if (hasWeight)
    types.f32({n});
  types.f32({rows});
  StringRef kind = hasWeight ? "row_dot_weight" : "row_dot";
  auto kernel = getOrBuild(nameOf(kind, rows, n), types, [&](KernelBuilder &k) {
    k.iterate([&](Value index) {
      Num sum = Row(k, index, n).dot(0, 1, hasWeight ? 2 : -1);
      k.store(sum, hasWeight ? 3 : 2, index);
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::rmsRstd(int64_t rows, int64_t size, double epsilon) {
  OperandTypes types(module.getContext());
  types.f32({rows, rows});
  return elementwise(
      getOrBuild(nameOf("rms_rstd", rows, size) + "_" + bitsOf(epsilon), types,
                 [&](KernelBuilder &k) {
                   forBlocks(k, rows, [&](Value at, Type type) {
                     k.store(getRstd(k, k.load(0, at, type), size, epsilon), 1,
                             at);
                   });
                 }),
      rows);
}

KernelLaunch CpuKernels::rmsScale(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows, n, rows * n});
  auto kernel =
      getOrBuild(nameOf("rms_scale", rows, n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value index) {
          Row row(k, index, n);
          Num rstd = k.loadScalar(1, index);
          k.lanes(n, [&](Value at, Type type) {
            row.store(row.load(0, at, type) * rstd * k.load(2, at, type), 3,
                      at);
          });
        });
      });
  return {kernel, rows, rowGrain(n)};
}
