//===- HeadLossKernels.cpp - Softmax and loss of a chunk of logits --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

using namespace mlir;
using namespace mlir::optimus;

static Num rowMaximum(KernelBuilder &k, Value base, Value real) {
  return k.maximum(real, [&](Value at, Type type) {
    return k.load(0, k.addIndex(base, at), type);
  });
}

/// The body of expSum for one row of logits in operand 0.
static void expRow(KernelBuilder &k, Value row, int64_t cols, Num max,
                   int64_t targets, int64_t sums, Value first, Value real) {
  Value base = k.mulIndex(row, k.index(cols));
  Value out = k.mulIndex(row, k.index(2));
  Value outTarget = k.addIndex(out, k.index(1));
  // Before the row is overwritten.
  k.store(k.constant(0, k.f32()), sums, outTarget);
  whenInTable(k, targets, row, first, cols, [&](Value column) {
    k.when(k.less(column, real), [&] {
      Num logit = k.loadScalar(0, k.addIndex(base, column));
      k.store(logit - max, sums, outTarget);
    });
  });
  Num total = k.sums(real, 1, [&](Value at, Type type) {
    Value element = k.addIndex(base, at);
    Num e = k.exp(k.load(0, element, type) - max);
    k.store(e, 0, element);
    return KernelBuilder::Terms{e};
  })[0];
  k.store(total, sums, out);
  k.loop(real, k.index(cols), 1, [&](Value at) {
    k.store(k.constant(0, k.f32()), 0, k.addIndex(base, at));
  });
}

KernelLaunch CpuKernels::rowMax(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, rows}).scalars(1);
  auto kernel =
      getOrBuild(nameOf("row_max", rows, cols), types, [&](KernelBuilder &k) {
        Value real = k.indexArg(2);
        k.iterate([&](Value row) {
          k.store(rowMaximum(k, k.mulIndex(row, k.index(cols)), real), 1, row);
        });
      });
  return {kernel, rows, rowGrain(cols)};
}

KernelLaunch CpuKernels::expSum(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, rows}).i32({rows}).f32({rows * 2}).scalars(2);
  auto kernel =
      getOrBuild(nameOf("exp_sum", rows, cols), types, [&](KernelBuilder &k) {
        Value first = k.indexArg(4), real = k.indexArg(5);
        k.iterate([&](Value row) {
          expRow(k, row, cols, k.loadScalar(1, row), 2, 3, first, real);
        });
      });
  return {kernel, rows, rowGrain(cols)};
}

/// Whether the target of a row is real.
static Value isReal(KernelBuilder &k, int64_t targets, Value row) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge,
                               k.loadElement(targets, row), zero);
}

KernelLaunch CpuKernels::tokenLoss(int64_t rows) {
  OperandTypes types(module.getContext());
  types.f32({rows * 2}).i32({rows}).f32({rows});
  auto kernel =
      getOrBuild(nameOf("token_loss", rows), types, [&](KernelBuilder &k) {
        k.iterate([&](Value row) {
          Value at = k.mulIndex(row, k.index(2));
          Num total = k.widen(k.loadScalar(0, at));
          Num target = k.widen(k.loadScalar(0, k.addIndex(at, k.index(1))));
          Num loss = k.narrow(k.log(total) - target);
          k.store(k.select(isReal(k, 1, row), loss, k.constant(0, k.f32())), 2,
                  row);
        });
      });
  return {kernel, rows, 512};
}

/// The body of logitsGrad for one row of exponentials in operand 0.
static void gradRow(KernelBuilder &k, Value row, int64_t cols, int64_t targets,
                    int64_t sums, Value first) {
  Value base = k.mulIndex(row, k.index(cols));
  k.when(
      isReal(k, targets, row),
      [&] {
        Num inverse = 1.0 / k.loadScalar(sums, k.mulIndex(row, k.index(2)));
        k.lanes(cols, [&](Value at, Type type) {
          Value element = k.addIndex(base, at);
          k.store(k.load(0, element, type) * inverse, 0, element);
        });
        whenInTable(k, targets, row, first, cols, [&](Value column) {
          Value element = k.addIndex(base, column);
          k.store(k.loadScalar(0, element) - 1.0, 0, element);
        });
      },
      [&] {
        k.lanes(cols, [&](Value at, Type type) {
          k.store(k.constant(0, type), 0, k.addIndex(base, at));
        });
      });
}

KernelLaunch CpuKernels::logitsGrad(int64_t rows, int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols, rows * 2}).i32({rows}).scalars(1);
  auto kernel = getOrBuild(
      nameOf("logits_grad", rows, cols), types, [&](KernelBuilder &k) {
        Value first = k.indexArg(3);
        k.iterate([&](Value row) { gradRow(k, row, cols, 2, 1, first); });
      });
  return {kernel, rows, rowGrain(cols)};
}

KernelLaunch CpuKernels::softmaxSums(int64_t rows, int64_t cols,
                                     bool withGrad) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols}).i32({rows}).f32({rows * 2}).scalars(2);
  StringRef kind = withGrad ? "softmax_sums_grad" : "softmax_sums";
  auto kernel =
      getOrBuild(nameOf(kind, rows, cols), types, [&](KernelBuilder &k) {
        Value first = k.indexArg(3), real = k.indexArg(4);
        k.iterate([&](Value row) {
          Num max = rowMaximum(k, k.mulIndex(row, k.index(cols)), real);
          expRow(k, row, cols, max, 1, 2, first, real);
          if (withGrad)
            gradRow(k, row, cols, 1, 2, first);
        });
      });
  return {kernel, rows, rowGrain(cols)};
}

KernelLaunch CpuKernels::sumTokens(int64_t n) {
  OperandTypes types(module.getContext());
  types.f32({n, 1});
  auto kernel =
      getOrBuild(nameOf("sum_tokens", n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value) {
          Num sum = k.sums(
              n, 1,
              [&](Value at, Type type) {
                return KernelBuilder::Terms{k.widen(k.load(0, at, type))};
              },
              /*wide=*/true)[0];
          k.store(k.narrow(sum), 1, k.index(0));
        });
      });
  return {kernel, 1, 1};
}

KernelLaunch CpuKernels::countReal(int64_t n) {
  OperandTypes types(module.getContext());
  types.i32({n}).f32({1});
  auto kernel =
      getOrBuild(nameOf("count_real", n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value) {
          ImplicitLocOpBuilder &b = k.getBuilder();
          Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
          Value count =
              k.loop(k.index(0), k.index(n), 1, {zero},
                     [&](Value at, ValueRange sum) {
                       Value one = arith::ExtUIOp::create(b, b.getI32Type(),
                                                          isReal(k, 0, at));
                       Value next = arith::AddIOp::create(b, sum.front(), one);
                       return SmallVector<Value>{next};
                     })
                  .front();
          k.store(k.num(arith::SIToFPOp::create(b, k.f32(), count)), 1,
                  k.index(0));
        });
      });
  return {kernel, 1, 1};
}
