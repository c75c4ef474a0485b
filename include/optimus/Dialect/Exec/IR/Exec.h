//===- Exec.h - The exec dialect --------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_IR_EXEC_H
#define OPTIMUS_DIALECT_EXEC_IR_EXEC_H

#include "optimus-support/Sizes.h"

#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <mutex>
#include <vector>

namespace mlir::exec {
class WaitOp;
class CollectiveStartOp;

/// What addresses in an arena are multiples of at least, in bytes.
inline constexpr int64_t kLeastAlignment = 64;

/// The queue of every command except collectives and copies between memory
/// spaces, the queue of copies into the device's memory, and the queue of
/// copies out of it. None holds up another.
inline constexpr llvm::StringLiteral kComputeQueue = "compute";
inline constexpr llvm::StringLiteral kFetchQueue = "fetch";
inline constexpr llvm::StringLiteral kStoreQueue = "store";

/// Whether the memory space of a type is null, the device's, or another that
/// has a name.
bool isMemorySpace(Attribute space);

/// How a command touches one of its buffers: all of it, or `rows` rows of
/// `cols` elements that lie `ld` elements apart from its first element on.
struct Access {
  OpOperand *operand;
  bool reads;
  bool writes;
  int64_t rows = 1;
  /// 0 for all of the buffer.
  int64_t cols = 0;
  int64_t ld = 0;
  /// Where set, all of this is touched instead: a buffer that the operand is a
  /// view of.
  Value part = {};

  /// The bytes of the operand that it touches.
  int64_t getTouchedBytes() const;
};

/// An integer: `constant`, and `scale` for each step of a rank's combined index
/// on `axes`, slowest first; clamped to [least, most] where they are there.
struct RankNumber {
  int64_t constant = 0;
  ArrayAttr axes = {}; ///< null where all ranks have the constant
  int64_t scale = 0;
  std::optional<int64_t> least = {}, most = {};
};

/// The ranks whose index on `axis` is `index`, as against the others.
struct RankChoice {
  StringRef axis;
  int64_t index;
};

/// The messages of this rank, which others must agree on: what starts or awaits
/// one is never dropped, merged or moved across another.
struct CommunicationResource
    : SideEffects::Resource::Base<CommunicationResource> {
  StringRef getName() final { return "exec.communication"; }
};

/// The memory effects of a command: those of its accesses, and where it starts
/// or awaits another command, those of that command meanwhile.
void addCommandEffects(
    Operation *command,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects);

/// The buffer that `buffer` is a view of: an argument, an allocation or an
/// arena slot. A view by exec.select_rank has two.
SmallVector<Value> getBases(Value buffer);

} // namespace mlir::exec

#include "optimus/Dialect/Exec/IR/ExecDialect.h.inc"
#include "optimus/Dialect/Exec/IR/ExecEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/Exec/IR/ExecAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "optimus/Dialect/Exec/IR/ExecTypes.h.inc"

#include "optimus/Dialect/Exec/IR/ExecInterfaces.h.inc"

#define GET_OP_CLASSES
#include "optimus/Dialect/Exec/IR/ExecOps.h.inc"

namespace mlir::exec {

/// The memory space of a buffer or arena.
MemorySpace getMemorySpace(Value buffer);
/// The attribute of a type in a space; null for the device's.
Attribute getMemorySpaceAttr(MLIRContext *context, MemorySpace space);
/// The lanes of a module, or of the one that an operation is in.
int64_t getLanes(Operation *op);
/// How many of a function's first arguments are arenas, one a memory space.
unsigned getNumArenas(TypeRange arguments);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_IR_EXEC_H
