//===- Entries.h - What functions are called for ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes and tools ask for a kind of function; a function's name is for people.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_ENTRIES_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_ENTRIES_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Null where a function does not say it.
EntryAttr getEntry(func::FuncOp function);
/// That of a function without an entry is `other`.
EntryKind getEntryKind(func::FuncOp function);
/// The kinds that read and write the cache of a library for generation.
inline constexpr EntryKind kGenerationKinds[] = {
    EntryKind::Prefill, EntryKind::Decode, EntryKind::Score};

/// The functions of a kind, in the order of the module.
SmallVector<func::FuncOp> findEntries(ModuleOp module, EntryKind kind);
/// The first of them, or null.
func::FuncOp findEntry(ModuleOp module, EntryKind kind);

/// The entries that prepare buffers for a function.
SmallVector<func::FuncOp> findPreparers(func::FuncOp function);
/// Those for a module's functions of generation.
SmallVector<func::FuncOp> findGenerationPreparers(ModuleOp module);

/// Says what a function is called for. Its batch is that of its tokens, if it
/// reads any.
void setEntry(func::FuncOp function, EntryKind kind);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_ENTRIES_H
