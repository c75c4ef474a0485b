//===- HeldRow.cpp - A row that is loaded in each pass ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelBuilder.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// For processors, which have the row in a cache.
class LoadedRow final : public HeldRow {
public:
  LoadedRow(KernelBuilder &k, KernelBuffer buffer, Value begin, int64_t cols,
            Value n)
      : k(k), buffer(buffer), begin(begin), cols(cols), n(n) {}

  Num maximum() override {
    return k.maximum(n, [&](Value at, Type type) { return load(at, type); });
  }
  Num sum(function_ref<Num(Num)> term) override {
    return k.sums(n, 1, [&](Value at, Type type) {
      return Terms{term(load(at, type))};
    })[0];
  }
  void forEach(function_ref<void(Value, Num)> body) override {
    k.lanes(n, [&](Value at, Type type) { body(at, load(at, type)); });
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    k.each(n, k.index(cols),
           [&](Value at) { body(at, k.constant(kNothing, k.f32())); });
  }

private:
  Num load(Value column, Type type) {
    return buffer.load(k.addIndex(begin, column), type);
  }

  KernelBuilder &k;
  KernelBuffer buffer;
  Value begin;
  int64_t cols;
  Value n;
};
} // namespace

Num KernelSchedule::roughExp(KernelBuilder &k, Num x, Num most) const {
  Num lowest = k.constant(std::numeric_limits<float>::lowest(), x.getType());
  return k.select(k.greater(lowest, x), k.constant(0, x.getType()),
                  k.exp(x - most));
}

Num KernelSchedule::narrowExp(KernelBuilder &k, Num x) const {
  return k.exp(x);
}

Num KernelSchedule::narrowQuotient(KernelBuilder &, Num a, Num c) const {
  return a / c;
}

std::unique_ptr<HeldRow> KernelSchedule::holdRow(KernelBuilder &k,
                                                 KernelBuffer buffer,
                                                 Value begin, int64_t cols,
                                                 Value n) const {
  return std::make_unique<LoadedRow>(k, buffer, begin, cols, n);
}
