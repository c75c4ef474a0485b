//===- OptimizerKernels.cpp - Norms of gradients, and steps -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/OptimizerKernels.h"

#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

void SumSquares::describe(KernelDescription &description) const {
  description.size(n);
  // A square is soon made: half an element's worth.
  description.overRows(getNumPartials(n), kPartial / 2);
  // The sums of all gradients lie one after the other.
  description.read("x", n)
      .write("partials", getNumPartials(n), description.f64())
      .inUnitsOf(1);
}

void SumSquares::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"];
  int64_t partials = getNumPartials(n), rest = n % kPartial;
  k.forRows([&](Value i) {
    Value base = k.mulIndex(i, k.index(kPartial));
    auto cover = [&](int64_t count) {
      Num sum = k.sums(
          count, 1,
          [&](Value at, Type type) {
            Num element = k.widen(x.load(k.addIndex(base, at), type));
            return Terms{element * element};
          },
          /*wide=*/true)[0];
      k["partials"].storeOnce(sum, i);
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
}

void SumPartials::describe(KernelDescription &description) const {
  description.size(n);
  description.overItems(1, n);
  description.read("partials", n, description.f64()).write("sum", 1);
}

void SumPartials::build(KernelBuilder &k) const {
  KernelBuffer partials = k["partials"];
  k.forItems([&](Value) {
    SmallVector<Value> zero{k.constant(0, k.f64()).value};
    Value sum =
        k.loop(k.index(0), k.index(n), 1, zero, [&](Value at, ValueRange sum) {
           return SmallVector<Value>{
               (k.num(sum.front()) + partials.load(at)).value};
         }).front();
    k["sum"].store(k.narrow(k.num(sum)), k.index(0));
  });
}

void Clip::describe(KernelDescription &description) const {
  description.overItems(1, 1);
  description.read("norm", 1).read("count", 1).read("limit", 1);
  description.write("scale", 1).write("mean_norm", 1);
}

void Clip::build(KernelBuilder &k) const {
  k.forItems([&](Value) {
    Num one = k.constant(1, k.f32());
    Num inverse = 1.0 / k.max(k["count"].load(), one);
    Num mean = k["norm"].load() * inverse;
    Num ratio = k["limit"].load() / (mean + 1e-6);
    // A NaN norm makes a NaN factor: it must not pass for a small gradient.
    Num scale = k.select(k.greater(ratio, one), one, ratio) * inverse;
    k["scale"].store(scale, k.index(0));
    k["mean_norm"].store(mean, k.index(0));
  });
}

/// Numbers that steps are given, each a buffer of one element.
static void readNumbers(KernelDescription &description,
                        std::initializer_list<StringRef> names) {
  for (StringRef name : names)
    description.read(name, 1);
}

namespace {
/// The moments that AdamW and LAMB share.
class Moments {
public:
  static void readStates(KernelDescription &description, int64_t n) {
    description.read("param", n).read("grad", n);
    description.read("exp_avg", n).read("exp_avg_sq", n).read("scale", 1);
  }
  static void readFactors(KernelDescription &description) {
    readNumbers(description,
                {"beta1", "beta2", "epsilon", "beta1_power", "beta2_power"});
  }
  static void writeStates(KernelDescription &description, int64_t n) {
    description.write("new_exp_avg", n).inPlaceOf({"exp_avg"});
    description.write("new_exp_avg_sq", n).inPlaceOf({"exp_avg_sq"});
  }

  explicit Moments(KernelBuilder &k)
      : k(k), grad(k["grad"]), first(k["exp_avg"]), second(k["exp_avg_sq"]),
        newFirst(k["new_exp_avg"]), newSecond(k["new_exp_avg_sq"]),
        scale(k["scale"].load()), beta1(k["beta1"].load()),
        beta2(k["beta2"].load()), epsilon(k["epsilon"].load()),
        oneMinus1(1.0 - beta1), oneMinus2(1.0 - beta2),
        correct1(1.0 / (1.0 - k["beta1_power"].load())),
        correct2(1.0 / (1.0 - k["beta2_power"].load())) {}

  /// Stores the new moments and returns m'/(1−β1ᵗ) / (√(v'/(1−β2ᵗ)) + ε).
  Num update(Value at, Type type) {
    Num g = grad.load(at, type) * scale;
    Num m = beta1 * first.load(at, type) + oneMinus1 * g;
    Num v = beta2 * second.load(at, type) + oneMinus2 * g * g;
    newFirst.store(m, at);
    newSecond.store(v, at);
    return m * correct1 / (k.sqrt(v * correct2) + epsilon);
  }

private:
  KernelBuilder &k;
  KernelBuffer grad, first, second, newFirst, newSecond;
  Num scale, beta1, beta2, epsilon, oneMinus1, oneMinus2, correct1, correct2;
};
} // namespace

void AdamW::describe(KernelDescription &description) const {
  description.option("decay", decay);
  description.size(n);
  description.overElements(1, n);
  Moments::readStates(description, n);
  readNumbers(description, {"lr", "weight_decay"});
  Moments::readFactors(description);
  description.write("new_param", n).inPlaceOf({"param"});
  Moments::writeStates(description, n);
}

void AdamW::build(KernelBuilder &k) const {
  KernelBuffer param = k["param"], result = k["new_param"];
  Moments moments(k);
  Num lr = k["lr"].load(), shrink = lr * k["weight_decay"].load();
  k.forElements([&](Value at, Value, Type type) {
    Num p = param.load(at, type);
    Num next = p - lr * moments.update(at, type);
    if (decay)
      next = next - shrink * p;
    result.store(next, at);
  });
}

void Sgd::describe(KernelDescription &description) const {
  description.option("decay", decay);
  description.size(n);
  description.overElements(1, n);
  description.read("param", n).read("grad", n).read("momentum_buffer", n);
  readNumbers(description, {"scale", "lr", "weight_decay", "momentum"});
  description.write("new_param", n).inPlaceOf({"param"});
  description.write("new_momentum_buffer", n).inPlaceOf({"momentum_buffer"});
}

void Sgd::build(KernelBuilder &k) const {
  KernelBuffer param = k["param"], grad = k["grad"],
               buffer = k["momentum_buffer"], newParam = k["new_param"],
               newBuffer = k["new_momentum_buffer"];
  Num scale = k["scale"].load(), lr = k["lr"].load(),
      weightDecay = k["weight_decay"].load(), momentum = k["momentum"].load();
  k.forElements([&](Value at, Value, Type type) {
    Num p = param.load(at, type);
    Num b = momentum * buffer.load(at, type) + grad.load(at, type) * scale;
    if (decay)
      b = b + weightDecay * p;
    newParam.store(p - lr * b, at);
    newBuffer.store(b, at);
  });
}

void LambDirection::describe(KernelDescription &description) const {
  description.option("decay", decay);
  description.size(n);
  description.overElements(1, n);
  Moments::readStates(description, n);
  readNumbers(description, {"weight_decay"});
  Moments::readFactors(description);
  description.write("direction", n).inPlaceOf({"grad"});
  Moments::writeStates(description, n);
}

void LambDirection::build(KernelBuilder &k) const {
  KernelBuffer param = k["param"], result = k["direction"];
  Moments moments(k);
  Num weightDecay = k["weight_decay"].load();
  k.forElements([&](Value at, Value, Type type) {
    Num p = param.load(at, type);
    Num direction = moments.update(at, type);
    if (decay)
      direction = direction + weightDecay * p;
    result.store(direction, at);
  });
}

void LambUpdate::describe(KernelDescription &description) const {
  description.option("trust", trust);
  description.size(n);
  description.overElements(1, n);
  description.read("param", n).read("direction", n);
  readNumbers(description, {"lr"});
  if (trust)
    readNumbers(description, {"param_norm", "direction_norm"});
  description.write("new_param", n).inPlaceOf({"param", "direction"});
}

void LambUpdate::build(KernelBuilder &k) const {
  KernelBuffer param = k["param"], direction = k["direction"],
               result = k["new_param"];
  Num step = k["lr"].load();
  if (trust) {
    Num zero = k.constant(0, k.f32()), one = k.constant(1, k.f32());
    Num paramNorm = k["param_norm"].load(),
        directionNorm = k["direction_norm"].load();
    Value both =
        k.both(k.greater(paramNorm, zero), k.greater(directionNorm, zero));
    step = step * k.select(both, paramNorm / directionNorm, one);
  }
  k.forElements([&](Value at, Value, Type type) {
    result.store(param.load(at, type) - step * direction.load(at, type), at);
  });
}
