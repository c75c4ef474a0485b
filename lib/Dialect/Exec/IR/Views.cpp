//===- Views.cpp - What a buffer is a view of -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace mlir::exec;

/// Adds the bases of `buffer`, once each.
static void collectBases(Value buffer, SmallVectorImpl<Value> &bases) {
  Operation *definition = buffer.getDefiningOp();
  if (auto slice = dyn_cast_or_null<SliceOp>(definition))
    return collectBases(slice.getBuffer(), bases);
  if (auto slice = dyn_cast_or_null<SliceRankOp>(definition))
    return collectBases(slice.getBuffer(), bases);
  if (auto select = dyn_cast_or_null<SelectRankOp>(definition)) {
    collectBases(select.getMine(), bases);
    return collectBases(select.getOther(), bases);
  }
  if (!llvm::is_contained(bases, buffer))
    bases.push_back(buffer);
}

SmallVector<Value> mlir::exec::getBases(Value buffer) {
  SmallVector<Value> bases;
  collectBases(buffer, bases);
  return bases;
}

Value mlir::exec::getWrittenBuffer(CollectiveStartOp start) {
  auto select = start.getDst().getDefiningOp<SelectRankOp>();
  if (start.getKind() == CollectiveKind::Broadcast && select &&
      select.getAxis() == start.getAxis() &&
      select.getIndex() == start.getRoot() &&
      select.getMine() == start.getSrc())
    return select.getOther();
  return start.getDst();
}

void mlir::exec::addAccessEffects(
    ArrayRef<Access> accesses,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  for (const Access &access : accesses) {
    if (access.reads)
      effects.emplace_back(MemoryEffects::Read::get(), access.operand);
    if (access.writes)
      effects.emplace_back(MemoryEffects::Write::get(), access.operand);
  }
}
