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

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {
/// The columns of a group of rows.
class NestedRowGroup final : public NestedSchedule {
public:
  NestedRowGroup(const KernelSchedule &base, const RowGroup &group)
      : NestedSchedule(base, group.number), group(group) {}

  void forElements(KernelBuilder &, int64_t, int64_t,
                   ElementsFn) const override {
    llvm_unreachable("a sum's space is of columns");
  }
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override {
    base.getRowGroups()->forColumns(k, cols, body);
  }
  /// A lane has its columns to itself.
  void once(KernelBuilder &, function_ref<void()> body) const override {
    body();
  }
  Terms columnSums(KernelBuilder &k, int64_t, int64_t count, Type type,
                   TermsFn terms) const override {
    SmallVector<Value> zeros(count, k.constant(0, type).value);
    Terms sums;
    for (Value sum : k.loop(group.begin, group.end, 1, zeros,
                            [&](Value row, ValueRange carried) {
                              return k.addTerms(carried, terms(row, type));
                            }))
      sums.push_back(k.num(sum));
    return sums;
  }

private:
  const RowGroup &group;
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

void RowSums::build(KernelBuilder &k) const {
  const RowGroups &groups = *k.getSchedule().getRowGroups();
  MLIRContext *context = k.getBuilder().getContext();
  groups.forGroups(k, k.getSpace().rows, together, [&](const RowGroup &group) {
    for (const RowStage &stage : stages) {
      KernelDescription description = stage.kernel.describe(context);
      groups.separate(k);
      if (!sumsColumns(description)) {
        groups.forRows(k, group, [&](Value row) { buildRow(k, stage, row); });
        continue;
      }
      SmallVector<Value> buffers;
      for (auto [operand, name] :
           llvm::zip_equal(description.getOperands(), stage.buffers)) {
        Value memory = k[name].getMemory();
        buffers.push_back(operand.access == KernelAccess::Read
                              ? memory
                              : getPart(k, operand, memory, group.number));
      }
      NestedRowGroup schedule(k.getSchedule(), group);
      KernelBuilder part(k, description, schedule, buffers);
      stage.kernel.build(part);
    }
  });
}
