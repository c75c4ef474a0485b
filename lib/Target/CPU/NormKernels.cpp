//===- NormKernels.cpp - Layer normalisation ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

using namespace mlir;
using namespace mlir::optimus;

KernelLaunch CpuKernels::layerNorm(int64_t rows, int64_t n, double epsilon) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, n, n, rows * n, rows, rows});
  auto kernel = getOrBuild(
      (Twine(nameOf("layer_norm", rows, n)) + "_" + bitsOf(epsilon)).str(),
      types, [&](KernelBuilder &k) {
        k.iterate([&](Value row) {
          Value base = k.mulIndex(row, k.index(n));
          auto load = [&](Value at, Type type) {
            return k.load(0, k.addIndex(base, at), type);
          };
          Num mean = k.sums(n, 1, [&](Value at, Type type) {
            return KernelBuilder::Terms{load(at, type)};
          })[0] * (1.0 / n);
          Num variance = k.sums(n, 1, [&](Value at, Type type) {
            Num d = load(at, type) - mean;
            return KernelBuilder::Terms{d * d};
          })[0] * (1.0 / n);
          Num rstd = 1.0 / k.sqrt(variance + epsilon);
          k.store(mean, 4, row);
          k.store(rstd, 5, row);
          k.lanes(n, [&](Value at, Type type) {
            Num normal = (load(at, type) - mean) * rstd;
            k.store(normal * k.load(1, at, type) + k.load(2, at, type), 3,
                    k.addIndex(base, at));
          });
        });
      });
  return {kernel, rows, rowGrain(n)};
}

namespace {
/// dŷ = dy·gamma and x̂ = (x − mean)·rstd of a row; the operands are dy, x,
/// mean, rstd, gamma.
struct NormRow {
  NormRow(KernelBuilder &k, Value row, int64_t n)
      : k(k), base(k.mulIndex(row, k.index(n))), mean(k.loadScalar(2, row)),
        rstd(k.loadScalar(3, row)) {}

  Num getDy(Value at, Type type) {
    return k.load(0, k.addIndex(base, at), type) * k.load(4, at, type);
  }
  Num getX(Value at, Type type) {
    return (k.load(1, k.addIndex(base, at), type) - mean) * rstd;
  }
  KernelBuilder::Terms getSums(int64_t n) {
    return k.sums(n, 2, [&](Value at, Type type) {
      Num dy = getDy(at, type);
      return KernelBuilder::Terms{dy, dy * getX(at, type)};
    });
  }
  /// rstd·(dŷ − a − x̂·b) + residual, stored to operand `result`.
  void apply(Value at, Type type, Num a, Num b, int64_t residual,
             int64_t result) {
    Num dx = (getDy(at, type) - a - getX(at, type) * b) * rstd;
    Value element = k.addIndex(base, at);
    if (residual >= 0)
      dx = dx + k.load(residual, element, type);
    k.store(dx, result, element);
  }

  KernelBuilder &k;
  Value base;
  Num mean, rstd;
};
} // namespace

KernelLaunch CpuKernels::layerNormGrad(int64_t rows, int64_t n,
                                       bool hasResidual) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n});
  if (hasResidual)
    types.f32({rows * n});
  types.f32({rows * n});
  StringRef kind = hasResidual ? "layer_norm_grad_residual" : "layer_norm_grad";
  auto kernel = getOrBuild(nameOf(kind, rows, n), types, [&](KernelBuilder &k) {
    k.iterate([&](Value row) {
      NormRow norm(k, row, n);
      auto sums = norm.getSums(n);
      Num a = sums[0] * (1.0 / n), b = sums[1] * (1.0 / n);
      k.lanes(n, [&](Value at, Type type) {
        norm.apply(at, type, a, b, hasResidual ? 5 : -1, hasResidual ? 6 : 5);
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::normParamGrad(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n, n});
  auto kernel = getOrBuild(
      nameOf("norm_param_grad", rows, n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value i) {
          k.columns(i, n, [&](Value column, Type type) {
            auto sums = columnSums(k, rows, 2, type, [&](Value row, Type type) {
              Value at = k.addIndex(k.mulIndex(row, k.index(n)), column);
              Num dy = k.load(0, at, type);
              Num x = (k.load(1, at, type) - k.loadScalar(2, row)) *
                      k.loadScalar(3, row);
              return KernelBuilder::Terms{dy * x, dy};
            });
            k.store(sums[0], 4, column);
            k.store(sums[1], 5, column);
          });
        });
      });
  return {kernel, KernelBuilder::getNumColumnBlocks(n), 1};
}

KernelLaunch CpuKernels::rowMoments(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * 2}).scalars(1);
  auto kernel =
      getOrBuild(nameOf("row_moments", rows, n), types, [&](KernelBuilder &k) {
        Value real = k.indexArg(2);
        // With no real element both sums are 0, whatever they are divided by.
        Value divisor = k.maxIndex(real, k.index(1));
        ImplicitLocOpBuilder &b = k.getBuilder();
        Num count = k.num(arith::SIToFPOp::create(
            b, k.f32(),
            arith::IndexCastOp::create(b, b.getI64Type(), divisor)));
        k.iterate([&](Value row) {
          Value base = k.mulIndex(row, k.index(n));
          auto load = [&](Value at, Type type) {
            return k.load(0, k.addIndex(base, at), type);
          };
          Num mean = k.sums(real, 1, [&](Value at, Type type) {
            return KernelBuilder::Terms{load(at, type)};
          })[0] / count;
          Num squares = k.sums(real, 1, [&](Value at, Type type) {
            Num d = load(at, type) - mean;
            return KernelBuilder::Terms{d * d};
          })[0];
          Value at = k.mulIndex(row, k.index(2));
          k.store(mean, 1, at);
          k.store(squares, 1, k.addIndex(at, k.index(1)));
        });
      });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::mergeMoments(int64_t rows, ArrayRef<int64_t> counts,
                                      double epsilon) {
  int64_t parts = counts.size();
  OperandTypes types(module.getContext());
  types.f32({rows * 2 * parts, rows, rows});
  std::string name = nameOf("merge_moments", rows);
  for (int64_t count : counts)
    name += ("_" + Twine(count)).str();
  auto kernel = getOrBuild(
      (Twine(name) + "_" + bitsOf(epsilon)).str(), types,
      [&](KernelBuilder &k) {
        k.iterate([&](Value row) {
          Value base = k.mulIndex(row, k.index(2 * parts));
          auto moment = [&](int64_t element) {
            return k.loadScalar(0, k.addIndex(base, k.index(element)));
          };
          // Chan's formula, in rank order; parts without elements add nothing.
          Num mean = k.constant(0, k.f32()), squares = mean;
          int64_t total = 0;
          for (auto [part, count] : llvm::enumerate(counts)) {
            if (count == 0)
              continue;
            Num partMean = moment(2 * part), partSquares = moment(2 * part + 1);
            if (total == 0) {
              mean = partMean;
              squares = partSquares;
              total = count;
              continue;
            }
            double a = total, b = count, both = a + b;
            Num delta = partMean - mean;
            mean = mean + delta * (b / both);
            squares = squares + partSquares + delta * delta * (a * b / both);
            total += count;
          }
          Num variance = squares * (1.0 / std::max<int64_t>(total, 1));
          k.store(mean, 1, row);
          k.store(1.0 / k.sqrt(variance + epsilon), 2, row);
        });
      });
  return {kernel, rows, 1024};
}

KernelLaunch CpuKernels::normalize(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows, rows, n, n, rows * n});
  auto kernel =
      getOrBuild(nameOf("normalize", rows, n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value row) {
          Value base = k.mulIndex(row, k.index(n));
          Num mean = k.loadScalar(1, row), rstd = k.loadScalar(2, row);
          k.lanes(n, [&](Value at, Type type) {
            Value element = k.addIndex(base, at);
            Num normal = (k.load(0, element, type) - mean) * rstd;
            k.store(normal * k.load(3, at, type) + k.load(4, at, type), 5,
                    element);
          });
        });
      });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::normGradSums(int64_t rows, int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n, rows * 2});
  auto kernel = getOrBuild(nameOf("norm_grad_sums", rows, n), types,
                           [&](KernelBuilder &k) {
                             k.iterate([&](Value row) {
                               auto sums = NormRow(k, row, n).getSums(n);
                               Value at = k.mulIndex(row, k.index(2));
                               k.store(sums[0], 5, at);
                               k.store(sums[1], 5, k.addIndex(at, k.index(1)));
                             });
                           });
  return {kernel, rows, rowGrain(n)};
}

KernelLaunch CpuKernels::normGradApply(int64_t rows, int64_t n, int64_t size,
                                       bool hasResidual) {
  OperandTypes types(module.getContext());
  types.f32({rows * n, rows * n, rows, rows, n, rows * 2});
  if (hasResidual)
    types.f32({rows * n});
  types.f32({rows * n}).scalars(1);
  StringRef kind = hasResidual ? "norm_grad_apply_residual" : "norm_grad_apply";
  std::string name = (Twine(nameOf(kind, rows, n)) + "_" + Twine(size)).str();
  auto kernel = getOrBuild(name, types, [&](KernelBuilder &k) {
    int64_t result = hasResidual ? 7 : 6;
    Value real = k.indexArg(result + 1);
    k.iterate([&](Value row) {
      NormRow norm(k, row, n);
      Value at = k.mulIndex(row, k.index(2));
      Num a = k.loadScalar(5, at) * (1.0 / size);
      Num b = k.loadScalar(5, k.addIndex(at, k.index(1))) * (1.0 / size);
      k.lanes(real, [&](Value at, Type type) {
        norm.apply(at, type, a, b, hasResidual ? 6 : -1, result);
      });
      Num zero = k.constant(0, k.f32());
      k.loop(real, k.index(n), 1, [&](Value at) {
        k.store(zero, result, k.addIndex(norm.base, at));
      });
    });
  });
  return {kernel, rows, rowGrain(n)};
}
