//===- RowChain.cpp - Kernels one after the other on each row ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/RowChain.h"

#include "optimus/Kernels/KernelBuilder.h"

#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {
/// What a stage makes of a schedule: its iteration is the chain's, and
/// everything in it is as it would be in a kernel of its own.
class WithinRow final : public KernelSchedule {
public:
  WithinRow(const KernelSchedule &base, Value row) : base(base), row(row) {}

  KernelExtent getExtent(const IterationSpace &space) const override {
    return base.getExtent(space);
  }
  void forElements(KernelBuilder &k, int64_t, int64_t cols,
                   ElementsFn body) const override {
    Value first = k.mulIndex(row, k.index(cols));
    base.lanes(k, cols, [&](Value at, Type type) {
      body(k.addIndex(first, at), at, type);
    });
  }
  void forRows(KernelBuilder &, IndexFn body) const override { body(row); }
  void forColumns(KernelBuilder &, int64_t, LanesFn) const override {
    llvm_unreachable("a stage's space is of rows or elements");
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

private:
  const KernelSchedule &base;
  Value row;
};
} // namespace

/// Whether the iterations of a space can be those of rows.
[[maybe_unused]] static bool hasRows(const IterationSpace &space) {
  return space.kind == IterationSpace::Rows ||
         space.kind == IterationSpace::Elements;
}

void RowChain::visit(KernelParameters &parameters) {
  parameters.stages("stages", stages);
}

void RowChain::describe(KernelDescription &description) const {
  MLIRContext *context = description.getContext();
  std::string name = "chain", wires;
  int64_t rows = 0, work = 0, longest = 0;
  for (const RowStage &stage : stages) {
    KernelDescription part = stage.kernel.describe(context);
    name += "_" + part.getName();
    const IterationSpace &space = part.getSpace();
    assert(hasRows(space) && (rows == 0 || space.rows == rows));
    rows = space.rows;
    work += space.cols;
    longest = std::max(longest, space.cols);
    for (auto [operand, buffer] :
         llvm::zip_equal(part.getOperands(), stage.buffers)) {
      wires += buffer + ",";
      description.share(buffer, operand);
    }
    for (const std::string &scalar : stage.scalars) {
      wires += scalar + ";";
      if (!description.findScalar(scalar))
        description.scalar(scalar);
    }
  }
  description.setStem(name);
  description.text(llvm::utohexstr(llvm::xxh3_64bits(wires)));
  description.overChain(rows, work, longest);
}

void RowChain::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    for (const RowStage &stage : stages) {
      k.separate();
      WithinRow schedule(k.getSchedule(), row);
      KernelDescription description =
          stage.kernel.describe(k.getBuilder().getContext());
      KernelBuilder part(k, description, schedule, stage.buffers,
                         stage.scalars);
      stage.kernel.build(part);
    }
  });
}
