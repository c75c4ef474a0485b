//===- OptimizerKernels.cpp - Norms of gradients, clipping ------*- C++ -*-===//
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
