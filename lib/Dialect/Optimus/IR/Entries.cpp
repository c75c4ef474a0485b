//===- Entries.cpp - What functions are called for --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::optimus;

LogicalResult EntryAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                EntryKind kind, int64_t batch,
                                int64_t sequence) {
  bool isAbsent = batch == 0 && sequence == 0;
  if (isAbsent || (batch > 0 && batch <= INT32_MAX && sequence > 0 &&
                   sequence <= INT32_MAX))
    return success();
  return emitError() << "C1: expected batch and sequence from 1 to "
                     << INT32_MAX << ", found " << batch << " and " << sequence;
}

EntryAttr mlir::optimus::getEntry(func::FuncOp function) {
  return function->getAttrOfType<EntryAttr>(OptimusDialect::kEntry);
}

EntryKind mlir::optimus::getEntryKind(func::FuncOp function) {
  EntryAttr entry = getEntry(function);
  return entry ? entry.getKind() : EntryKind::Other;
}

SmallVector<func::FuncOp> mlir::optimus::findEntries(ModuleOp module,
                                                     EntryKind kind) {
  SmallVector<func::FuncOp> found;
  for (auto function : module.getOps<func::FuncOp>())
    if (EntryAttr entry = getEntry(function); entry && entry.getKind() == kind)
      found.push_back(function);
  return found;
}

func::FuncOp mlir::optimus::findEntry(ModuleOp module, EntryKind kind) {
  SmallVector<func::FuncOp> found = findEntries(module, kind);
  return found.empty() ? func::FuncOp() : found.front();
}

SmallVector<func::FuncOp> mlir::optimus::findPreparers(func::FuncOp function) {
  auto getPrepared = [](func::FuncOp of) {
    llvm::SmallDenseSet<BufferAttr> buffers;
    for (unsigned i = 0; i != of.getNumArguments(); ++i)
      if (BufferAttr buffer = getArgumentBuffer(of, i);
          buffer && buffer.isPrepared())
        buffers.insert(buffer);
    return buffers;
  };
  const auto read = getPrepared(function);
  SmallVector<func::FuncOp> found;
  for (func::FuncOp preparer :
       findEntries(function->getParentOfType<ModuleOp>(), EntryKind::Prepare))
    if (preparer != function &&
        llvm::any_of(getPrepared(preparer),
                     [&](BufferAttr buffer) { return read.contains(buffer); }))
      found.push_back(preparer);
  return found;
}

SmallVector<func::FuncOp>
mlir::optimus::findGenerationPreparers(ModuleOp module) {
  llvm::SetVector<func::FuncOp> found;
  for (EntryKind kind : kGenerationKinds)
    for (func::FuncOp function : findEntries(module, kind))
      found.insert_range(findPreparers(function));
  return found.takeVector();
}

void mlir::optimus::setEntry(func::FuncOp function, EntryKind kind) {
  int64_t batch = 0, sequence = 0;
  for (auto [number, type] : llvm::enumerate(function.getArgumentTypes())) {
    BufferAttr buffer = getArgumentBuffer(function, number);
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!buffer || buffer.getFilledBy() != FilledBy::Data || !tensor ||
        tensor.getRank() != 2)
      continue;
    batch = tensor.getDimSize(0);
    sequence = tensor.getDimSize(1);
    break;
  }
  function->setAttr(
      OptimusDialect::kEntry,
      EntryAttr::get(function.getContext(), kind, batch, sequence));
}
