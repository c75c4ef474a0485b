//===- OptimizerKernels.cpp - Gradient norm, clipping and AdamW -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

using namespace mlir;
using namespace mlir::optimus;

int64_t CpuKernels::getNumPartials(int64_t n) const {
  return ceilDiv(n, kPartial);
}

KernelLaunch CpuKernels::sumSquares(int64_t n) {
  int64_t partials = getNumPartials(n), rest = n % kPartial;
  OperandTypes types(module.getContext());
  types.f32({n}).f64({partials});
  auto kernel =
      getOrBuild(nameOf("sum_squares", n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value i) {
          Value base = k.mulIndex(i, k.index(kPartial));
          auto cover = [&](int64_t count) {
            Num sum = k.sums(
                count, 1,
                [&](Value at, Type type) {
                  Num x = k.widen(k.load(0, k.addIndex(base, at), type));
                  return KernelBuilder::Terms{x * x};
                },
                /*wide=*/true)[0];
            k.store(sum, 1, i);
          };
          if (rest == 0)
            cover(kPartial);
          else if (partials == 1)
            cover(rest);
          else
            k.when(
                k.less(i, k.index(partials - 1)), [&] { cover(kPartial); },
                [&] { cover(rest); });
        });
      });
  return {kernel, partials, 2};
}

KernelLaunch CpuKernels::sumPartials(int64_t n) {
  OperandTypes types(module.getContext());
  types.f64({n}).f32({1});
  auto kernel =
      getOrBuild(nameOf("sum_partials", n), types, [&](KernelBuilder &k) {
        k.iterate([&](Value) {
          SmallVector<Value> zero{k.constant(0, k.f64()).value};
          Value sum =
              k.loop(k.index(0), k.index(n), 1, zero,
                     [&](Value at, ValueRange sum) {
                       return SmallVector<Value>{
                           (k.num(sum.front()) + k.load(0, at, k.f64())).value};
                     })
                  .front();
          k.store(k.narrow(k.num(sum)), 1, k.index(0));
        });
      });
  return {kernel, 1, 1};
}

KernelLaunch CpuKernels::clip() {
  OperandTypes types(module.getContext());
  types.f32({1, 1, 1, 1, 1});
  auto kernel = getOrBuild("clip", types, [&](KernelBuilder &k) {
    k.iterate([&](Value) {
      Num one = k.constant(1, k.f32());
      Num inverse = 1.0 / k.max(k.loadScalar(1), one);
      Num mean = k.loadScalar(0) * inverse;
      Num ratio = k.loadScalar(2) / (mean + 1e-6);
      // A NaN norm makes a NaN factor: it must not pass for a small gradient.
      Num scale = k.select(k.greater(ratio, one), one, ratio) * inverse;
      k.store(scale, 3, k.index(0));
      k.store(mean, 4, k.index(0));
    });
  });
  return {kernel, 1, 1};
}

namespace {
/// The moments that AdamW and LAMB share; the operands before the scalars are
/// param, grad, exp_avg and exp_avg_sq.
class Moments {
public:
  /// `first` is the operand of beta1; beta2, epsilon, beta1_power and
  /// beta2_power follow.
  Moments(KernelBuilder &k, int64_t first)
      : k(k), scale(k.loadScalar(4)), beta1(k.loadScalar(first)),
        beta2(k.loadScalar(first + 1)), epsilon(k.loadScalar(first + 2)),
        oneMinus1(1.0 - beta1), oneMinus2(1.0 - beta2),
        correct1(1.0 / (1.0 - k.loadScalar(first + 3))),
        correct2(1.0 / (1.0 - k.loadScalar(first + 4))) {}

  /// Stores the new moments to operands `result` and `result` + 1 and returns
  /// m'/(1−β1ᵗ) / (√(v'/(1−β2ᵗ)) + ε).
  Num update(Value at, Type type, int64_t result) {
    Num g = k.load(1, at, type) * scale;
    Num m = beta1 * k.load(2, at, type) + oneMinus1 * g;
    Num v = beta2 * k.load(3, at, type) + oneMinus2 * g * g;
    k.store(m, result, at);
    k.store(v, result + 1, at);
    return m * correct1 / (k.sqrt(v * correct2) + epsilon);
  }

private:
  KernelBuilder &k;
  Num scale, beta1, beta2, epsilon, oneMinus1, oneMinus2, correct1, correct2;
};
} // namespace

KernelLaunch CpuKernels::adamw(int64_t n, bool decay) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n, n, 1, 1, 1, 1, 1, 1, 1, 1, n, n, n});
  StringRef kind = decay ? "adamw_decay" : "adamw";
  return elementwise(
      getOrBuild(nameOf(kind, n), types,
                 [&](KernelBuilder &k) {
                   Moments moments(k, 7);
                   Num lr = k.loadScalar(5), shrink = lr * k.loadScalar(6);
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num p = k.load(0, at, type);
                     Num next = p - lr * moments.update(at, type, 13);
                     if (decay)
                       next = next - shrink * p;
                     k.store(next, 12, at);
                   });
                 }),
      n);
}

KernelLaunch CpuKernels::sgd(int64_t n, bool decay) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n, 1, 1, 1, 1, n, n});
  StringRef kind = decay ? "sgd_decay" : "sgd";
  return elementwise(
      getOrBuild(nameOf(kind, n), types,
                 [&](KernelBuilder &k) {
                   Num scale = k.loadScalar(3), lr = k.loadScalar(4),
                       weightDecay = k.loadScalar(5),
                       momentum = k.loadScalar(6);
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num p = k.load(0, at, type);
                     Num b = momentum * k.load(2, at, type) +
                             k.load(1, at, type) * scale;
                     if (decay)
                       b = b + weightDecay * p;
                     k.store(p - lr * b, 7, at);
                     k.store(b, 8, at);
                   });
                 }),
      n);
}

KernelLaunch CpuKernels::lambDirection(int64_t n, bool decay) {
  OperandTypes types(module.getContext());
  types.f32({n, n, n, n, 1, 1, 1, 1, 1, 1, 1, n, n, n});
  StringRef kind = decay ? "lamb_direction_decay" : "lamb_direction";
  return elementwise(
      getOrBuild(nameOf(kind, n), types,
                 [&](KernelBuilder &k) {
                   Moments moments(k, 6);
                   Num weightDecay = k.loadScalar(5);
                   forBlocks(k, n, [&](Value at, Type type) {
                     Num p = k.load(0, at, type);
                     Num direction = moments.update(at, type, 12);
                     if (decay)
                       direction = direction + weightDecay * p;
                     k.store(direction, 11, at);
                   });
                 }),
      n);
}

KernelLaunch CpuKernels::lambUpdate(int64_t n, bool hasNorms) {
  OperandTypes types(module.getContext());
  types.f32({n, n, 1});
  if (hasNorms)
    types.f32({1, 1});
  types.f32({n});
  StringRef kind = hasNorms ? "lamb_update_trust" : "lamb_update";
  return elementwise(
      getOrBuild(nameOf(kind, n), types,
                 [&](KernelBuilder &k) {
                   Num step = k.loadScalar(2);
                   if (hasNorms) {
                     Num zero = k.constant(0, k.f32()),
                         one = k.constant(1, k.f32());
                     Num param = k.loadScalar(3), direction = k.loadScalar(4);
                     Value both = k.both(k.greater(param, zero),
                                         k.greater(direction, zero));
                     step = step * k.select(both, param / direction, one);
                   }
                   forBlocks(k, n, [&](Value at, Type type) {
                     k.store(k.load(0, at, type) - step * k.load(1, at, type),
                             hasNorms ? 5 : 3, at);
                   });
                 }),
      n);
}
