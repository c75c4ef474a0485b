//===- NestedSchedule.h - A kernel within another's iteration ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_KERNELS_NESTEDSCHEDULE_H
#define OPTIMUS_LIB_KERNELS_NESTEDSCHEDULE_H

#include "optimus/Kernels/KernelBuilder.h"

namespace mlir::optimus {

/// A schedule for a kernel inside of another schedule's loop over iterations:
/// its row is given, and everything in it is as it would be in a kernel of its
/// own. Subclasses say what the elements of an iteration are.
class NestedSchedule : public KernelSchedule {
public:
  NestedSchedule(const KernelSchedule &base, Value row)
      : base(base), row(row) {}

  KernelExtent getExtent(const IterationSpace &space) const override {
    return base.getExtent(space);
  }
  void forRows(KernelBuilder &, IndexFn body) const override { body(row); }
  void forColumns(KernelBuilder &, int64_t, LanesFn) const override {
    llvm_unreachable("a part's space is of rows, items or elements");
  }
  void lanes(KernelBuilder &k, int64_t n, LanesFn body) const override {
    base.lanes(k, n, body);
  }
  void lanes(KernelBuilder &k, Value n, LanesFn body) const override {
    base.lanes(k, n, body);
  }
  void each(KernelBuilder &k, Value from, Value to,
            IndexFn body) const override {
    base.each(k, from, to, body);
  }
  Terms sums(KernelBuilder &k, int64_t n, int64_t count, TermsFn terms,
             bool wide) const override {
    return base.sums(k, n, count, terms, wide);
  }
  Terms sums(KernelBuilder &k, Value n, int64_t count,
             TermsFn terms) const override {
    return base.sums(k, n, count, terms);
  }
  Num maximum(KernelBuilder &k, Value n,
              function_ref<Num(Value, Type)> term) const override {
    return base.maximum(k, n, term);
  }
  std::unique_ptr<HeldRow> holdRow(KernelBuilder &k, KernelBuffer buffer,
                                   Value begin, int64_t cols,
                                   Value n) const override {
    return base.holdRow(k, buffer, begin, cols, n);
  }
  int64_t getMostHeld(const IterationSpace &space) const override {
    return base.getMostHeld(space);
  }
  Num roughExp(KernelBuilder &k, Num x, Num most) const override {
    return base.roughExp(k, x, most);
  }
  Num narrowExp(KernelBuilder &k, Num x) const override {
    return base.narrowExp(k, x);
  }
  Num narrowQuotient(KernelBuilder &k, Num a, Num c) const override {
    return base.narrowQuotient(k, a, c);
  }
  void once(KernelBuilder &k, function_ref<void()> body) const override {
    base.once(k, body);
  }
  void separate(KernelBuilder &k) const override { base.separate(k); }
  Value allocateShared(KernelBuilder &k, int64_t extent) const override {
    return base.allocateShared(k, extent);
  }
  Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count, Type type,
                   TermsFn terms) const override {
    return base.columnSums(k, rows, count, type, terms);
  }

protected:
  const KernelSchedule &base;
  Value row;
};

/// A row of elements is an iteration of a stage of a chain.
class NestedRow final : public NestedSchedule {
public:
  using NestedSchedule::NestedSchedule;

  void forElements(KernelBuilder &k, int64_t, int64_t cols,
                   ElementsFn body) const override {
    Value first = k.mulIndex(row, k.index(cols));
    base.lanes(k, cols, [&](Value at, Type type) {
      body(k.addIndex(first, at), at, type);
    });
  }
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_KERNELS_NESTEDSCHEDULE_H
