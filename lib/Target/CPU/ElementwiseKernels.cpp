//===- ElementwiseKernels.cpp - One element at a time, and sums of rows ---===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

using namespace mlir;
using namespace mlir::optimus;

KernelLaunch CpuKernels::broadcast(StringRef name, int64_t rows, int64_t cols,
                                   llvm::function_ref<Num(Num, Num)> combine) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, cols, rows * cols});
  if (rows == 1)
    return elementwise(
        getOrBuild(nameOf(name, cols), types,
                   [&](KernelBuilder &k) {
                     forBlocks(k, cols, [&](Value at, Type type) {
                       k.store(
                           combine(k.load(0, at, type), k.load(1, at, type)), 2,
                           at);
                     });
                   }),
        cols);

  // An iteration is a row's part of at most kBlock columns.
  int64_t parts = ceilDiv(cols, kBlock);
  int64_t width = ceilDiv(cols, parts);
  int64_t last = cols - (parts - 1) * width;
  auto kernel =
      getOrBuild(nameOf(name, rows, cols), types, [&](KernelBuilder &k) {
        k.iterate([&](Value i) {
          ImplicitLocOpBuilder &b = k.getBuilder();
          Value row = arith::DivUIOp::create(b, i, k.index(parts));
          Value part = arith::RemUIOp::create(b, i, k.index(parts));
          Value column = k.mulIndex(part, k.index(width));
          Value base = k.addIndex(k.mulIndex(row, k.index(cols)), column);
          auto cover = [&](int64_t count) {
            k.lanes(count, [&](Value at, Type type) {
              Value element = k.addIndex(base, at);
              k.store(combine(k.load(0, element, type),
                              k.load(1, k.addIndex(column, at), type)),
                      2, element);
            });
          };
          if (last == width)
            cover(width);
          else
            k.when(
                k.less(part, k.index(parts - 1)), [&] { cover(width); },
                [&] { cover(last); });
        });
      });
  return {kernel, rows * parts, rowGrain(width)};
}

KernelLaunch CpuKernels::add(int64_t rows, int64_t cols) {
  return broadcast("add", rows, cols, [](Num a, Num b) { return a + b; });
}

KernelLaunch CpuKernels::mul(int64_t rows, int64_t cols) {
  return broadcast("mul", rows, cols, [](Num a, Num b) { return a * b; });
}

KernelLaunch CpuKernels::sumLeading(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, cols});
  auto kernel = getOrBuild(
      nameOf("sum_leading", rows, cols), types, [&](KernelBuilder &k) {
        k.iterate([&](Value i) {
          k.columns(i, cols, [&](Value column, Type type) {
            auto sums = columnSums(k, rows, 1, type, [&](Value row, Type type) {
              Value at = k.addIndex(k.mulIndex(row, k.index(cols)), column);
              return KernelBuilder::Terms{k.load(0, at, type)};
            });
            k.store(sums[0], 1, column);
          });
        });
      });
  return {kernel, KernelBuilder::getNumColumnBlocks(cols), 1};
}

/// √(2/π) and the cubic coefficient of GELU's tanh form.
static constexpr double kGeluScale = 0.7978845608028654;
static constexpr double kGeluCubic = 0.044715;

/// With u = √(2/π)(x + 0.044715 x³), GELU(x) = x/2·(1 + tanh u) = x·s where
/// s = 1/(1 + e^(−2u)). Returns e^(−2u).
static Num geluExp(KernelBuilder &k, Num x, Num square) {
  return k.exp(x * (square * (-2 * kGeluScale * kGeluCubic) - 2 * kGeluScale));
}

namespace {
/// GELU and its derivative at x. With φ and Φ the density and the distribution
/// of the standard normal, GELU(x) = x·Φ(x) and its derivative is
/// Φ(x) + x·φ(x).
struct ExactGelu {
  ExactGelu(KernelBuilder &k, Num x) {
    Num zero = k.constant(0, x.getType());
    Num z = k.max(x, zero - x) * 0.7071067811865476;
    Num e = k.exp(zero - z * z);
    // erfc(z) = t·g(t)·e^(−z²) with t = 1/(1 + 0.45 z); g interpolated in
    // Chebyshev nodes of [0, 1], with a relative error below 3.4e-8.
    Num t = 1.0 / (1.0 + z * 0.45);
    static constexpr double coefficients[] = {
        0.2538853209733752,   0.2538831039009928,  0.22827402626130455,
        0.17521964021371572,  0.12015942249049796, -0.023087135307580206,
        0.1438592573093509,   -0.3022505599642259, 0.1917014303885614,
        -0.041644529452457536};
    Num g = k.constant(coefficients[9], x.getType());
    for (int degree = 8; degree >= 0; --degree)
      g = g * t + coefficients[degree];
    Num tail = t * g * e * 0.5; // Φ(−|x|)
    Num distribution = k.select(k.greater(x, zero), 1.0 - tail, tail);
    value = x * distribution;
    slope = distribution + x * e * 0.3989422804014327; // 1/√(2π)
  }
  Num value, slope;
};
} // namespace

KernelLaunch CpuKernels::gelu(int64_t n, bool exact) {
  OperandTypes types(module.getContext());
  types.f32({n, n});
  return elementwise(getOrBuild(nameOf(exact ? "gelu_exact" : "gelu", n), types,
                                [&](KernelBuilder &k) {
                                  forBlocks(k, n, [&](Value at, Type type) {
                                    Num x = k.load(0, at, type);
                                    k.store(exact ? ExactGelu(k, x).value
                                                  : x / (1.0 + geluExp(k, x, x * x)),
                                            1, at);
                                  });
                                }),
                     n);
}

KernelLaunch CpuKernels::geluWithSlope(int64_t n, bool exact) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n});
  StringRef kind = exact ? "gelu_exact_with_slope" : "gelu_with_slope";
  return elementwise(
      getOrBuild(nameOf(kind, n), types,
                 [&](KernelBuilder &k) {
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num x = k.load(0, at, type);
                     if (exact) {
                       ExactGelu gelu(k, x);
                       k.store(gelu.value, 1, at);
                       k.store(gelu.slope, 2, at);
                       return;
                     }
                     Num square = x * x;
                     Num e = geluExp(k, x, square);
                     Num s = 1.0 / (1.0 + e);
                     // s' = s(1 − s)·(2u)' with 1 − s = e·s.
                     Num slope2u = square * (6 * kGeluScale * kGeluCubic) +
                                   2 * kGeluScale;
                     k.store(x * s, 1, at);
                     k.store(s + x * slope2u * (e * s) * s, 2, at);
                   });
                 }),
      n);
}

KernelLaunch CpuKernels::swiglu(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n});
  return elementwise(
      getOrBuild(nameOf("swiglu", n), types,
                 [&](KernelBuilder &k) {
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num gate = k.load(0, at, type), up = k.load(1, at, type);
                     k.store(gate / (1.0 + k.exp(gate * -1.0)) * up, 2, at);
                   });
                 }),
      n);
}

KernelLaunch CpuKernels::swigluGrad(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n, n, n});
  return elementwise(
      getOrBuild(nameOf("swiglu_grad", n), types,
                 [&](KernelBuilder &k) {
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num dy = k.load(0, at, type), gate = k.load(1, at, type),
                         up = k.load(2, at, type);
                     Num e = k.exp(gate * -1.0);
                     Num s = 1.0 / (1.0 + e);
                     // (gate·s)' = s + gate·s·(1 − s), with 1 − s = e·s.
                     k.store(dy * up * (s + gate * (e * s) * s), 3, at);
                     k.store(dy * (gate * s), 4, at);
                   });
                 }),
      n);
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

// bf16 is the upper half of f32. Its conversions are integer operations, since
// those that processors have for it flush what is subnormal.

/// The same integer in every lane of `type`.
static Value integer(KernelBuilder &k, Type type, int64_t value) {
  TypedAttr attr = IntegerAttr::get(
      getElementTypeOrSelf(type),
      APInt(getElementTypeOrSelf(type).getIntOrFloatBitWidth(), value));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(k.getBuilder(), attr);
}

static Value widenToF32(KernelBuilder &k, Value x) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Type type = k.withElement(x.getType(), k.f32());
  if (getElementTypeOrSelf(x.getType()).isF32())
    return x;
  if (!getElementTypeOrSelf(x.getType()).isBF16())
    return arith::ExtFOp::create(b, type, x);
  Type bits = k.withElement(type, b.getI32Type());
  Value half =
      arith::BitcastOp::create(b, k.withElement(type, b.getIntegerType(16)), x);
  Value upper = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, bits, half),
                                      integer(k, bits, 16));
  return arith::BitcastOp::create(b, type, upper);
}

static Value narrowTo(KernelBuilder &k, Value x, Type element) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Type type = k.withElement(x.getType(), element);
  if (element.isF32())
    return x;
  if (!element.isBF16())
    return arith::TruncFOp::create(b, type, x);
  Type bitsType = k.withElement(type, b.getI32Type());
  auto literal = [&](int64_t value) { return integer(k, bitsType, value); };
  Value bits = arith::BitcastOp::create(b, bitsType, x);
  Value sixteen = literal(16);
  Value upper = arith::ShRUIOp::create(b, bits, sixteen);
  // Half of the last place, less one where the even neighbour is below.
  Value odd = arith::AndIOp::create(b, upper, literal(1));
  Value half = arith::AddIOp::create(b, odd, literal(0x7FFF));
  Value rounded =
      arith::ShRUIOp::create(b, arith::AddIOp::create(b, bits, half), sixteen);
  // A NaN whose upper half would be that of infinity becomes a quiet one.
  Value quiet = arith::OrIOp::create(b, upper, literal(0x40));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  Value result = arith::SelectOp::create(b, isNan, quiet, rounded);
  Value narrow = arith::TruncIOp::create(
      b, k.withElement(type, b.getIntegerType(16)), result);
  return arith::BitcastOp::create(b, type, narrow);
}

KernelLaunch CpuKernels::cast(int64_t n, Type from, Type to) {
  std::string kind;
  llvm::raw_string_ostream(kind) << "cast_" << from << "_to_" << to;
  SmallVector<Type> types = {MemRefType::get({n}, from),
                             MemRefType::get({n}, to)};
  return elementwise(
      getOrBuild(nameOf(kind, n), types,
                 [&](KernelBuilder &k) {
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num x = k.load(0, at, k.withElement(type, from));
                     Value wide = widenToF32(k, x.value);
                     k.store(k.num(narrowTo(k, wide, to)), 1, at);
                   });
                 }),
      n);
}

KernelLaunch CpuKernels::sqrt(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, n});
  return elementwise(getOrBuild(nameOf("sqrt", n), types,
                                [&](KernelBuilder &k) {
                                  forBlocks(k, n, [&](Value at, Type type) {
                                    k.store(k.sqrt(k.load(0, at, type)), 1, at);
                                  });
                                }),
                     n);
}
