//===- RowSums.cpp - Sums of columns of rows that are made ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/RowSums.h"

#include "NestedSchedule.h"
#include "RowStages.h"

#include "optimus/Kernels/RowGroups.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {
/// The columns of a turn of a group of rows.
class NestedRowGroup final : public NestedSchedule {
public:
  /// `sums` are the group's: what the kernel sums it stores there.
  NestedRowGroup(const KernelSchedule &base, const RowGroup &group,
                 ArrayRef<Value> sums)
      : NestedSchedule(base, group.number), group(group), sums(sums) {}

  void forElements(KernelBuilder &, int64_t, int64_t,
                   ElementsFn) const override {
    llvm_unreachable("a sum's space is of columns");
  }
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override {
    base.getRowGroups()->forColumns(k, cols, [&](Value at, Type type) {
      column = at;
      body(at, type);
    });
  }
  /// A lane has its columns to itself.
  void once(KernelBuilder &, function_ref<void()> body) const override {
    body();
  }
  Terms columnSums(KernelBuilder &k, int64_t, int64_t count, Type type,
                   TermsFn terms) const override {
    assert(count == int64_t(sums.size()) && "a result is no sum");
    SmallVector<Value> begun;
    for (Value sum : sums)
      begun.push_back(getBegun(k, sum, type));
    Terms all;
    for (Value sum : k.loop(group.begin, group.end, 1, begun,
                            [&](Value row, ValueRange carried) {
                              return k.addTerms(carried, terms(row, type));
                            }))
      all.push_back(k.num(sum));
    return all;
  }

private:
  /// Of the turns before, which the same lane has stored.
  Value getBegun(KernelBuilder &k, Value sum, Type type) const {
    Value zero = k.constant(0, type).value;
    if (!group.isLater)
      return zero;
    ImplicitLocOpBuilder &b = k.getBuilder();
    auto begun =
        scf::IfOp::create(b, type, group.isLater, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(begun.thenBlock());
    scf::YieldOp::create(b, KernelBuffer(k, sum).load(column, type).value);
    b.setInsertionPointToStart(begun.elseBlock());
    scf::YieldOp::create(b, zero);
    return begun.getResult(0);
  }

  const RowGroup &group;
  ArrayRef<Value> sums;
  mutable Value column;
};
} // namespace

void RowSums::visit(KernelParameters &parameters) {
  parameters.stages("stages", stages);
  parameters.extent("together", together);
}

void RowSums::describe(KernelDescription &description) const {
  describeStages(description, "sums", stages, together);
  description.size(together);
  description.doTogether(together);
}

/// The part of a sum's operand that is a group's.
static Value getPart(KernelBuilder &k, const KernelOperand &operand,
                     Value memory, Value group) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto type = MemRefType::get(
      {operand.extent}, cast<MemRefType>(memory.getType()).getElementType(),
      StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, {1}));
  return memref::ReinterpretCastOp::create(
      b, type, memory, OpFoldResult(k.mulIndex(group, k.index(operand.extent))),
      ArrayRef<OpFoldResult>{b.getIndexAttr(operand.extent)},
      ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
}

/// The sums of a kernel of columns over the rows of a turn.
static void buildSums(KernelBuilder &k, const RowStage &stage,
                      const KernelDescription &description,
                      const RowGroup &turn) {
  SmallVector<Value> buffers, sums;
  for (auto [operand, name] :
       llvm::zip_equal(description.getOperands(), stage.buffers)) {
    Value memory = k[name].getMemory();
    if (operand.access != KernelAccess::Read) {
      memory = getPart(k, operand, memory, turn.number);
      sums.push_back(memory);
    }
    buffers.push_back(memory);
  }
  NestedRowGroup schedule(k.getSchedule(), turn, sums);
  KernelBuilder part(k, description, schedule, buffers);
  stage.kernel.build(part);
}

void RowSums::build(KernelBuilder &k) const {
  const RowGroups &groups = *k.getSchedule().getRowGroups();
  MLIRContext *context = k.getBuilder().getContext();
  auto doTurn = [&](const RowGroup &turn) {
    for (const RowStage &stage : stages) {
      KernelDescription description = stage.kernel.describe(context);
      groups.separate(k);
      if (sumsColumns(description))
        buildSums(k, stage, description, turn);
      else
        groups.forRows(k, turn, [&](Value row) { buildRow(k, stage, row); });
    }
  };
  groups.forGroups(k, k.getSpace().rows, together, [&](const RowGroup &group) {
    groups.forTurns(k, group, together, doTurn);
  });
}
