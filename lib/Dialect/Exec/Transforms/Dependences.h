//===- Dependences.h - Which commands must stay in order --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_DEPENDENCES_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_DEPENDENCES_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::exec {

/// A command, one that is waited for up to its wait, and those it must
/// come after and before. An edge is there for every two that touch the same
/// memory, one of them writing, unless a path of edges says so already. A
/// collective before is one that was waited for; one after is one that starts.
///
///   0: launch, write %a
///   1: launch, read %a, write %b    before = {0}
///   2: launch, write %a             before = {1}: the path 0 -> 1 -> 2 says
///                                   already that it comes after 0
struct ProgramNode {
  CommandOpInterface command;
  /// The command that waits for it; null where none does.
  CommandOpInterface wait;
  SmallVector<unsigned, 4> before, after;

  bool isCollective() const { return static_cast<bool>(wait); }
  /// The command with which it is done.
  Operation *getEnd() const { return isCollective() ? wait : command; }
};

/// Calls `visit` with the numbers of two commands, the earlier first, for each
/// two between which the above has an edge: for some more than once, and for
/// all of a later one together. Costs about the number of accesses.
void visitDependences(ArrayRef<CommandOpInterface> commands,
                      llvm::function_ref<void(unsigned, unsigned)> visit);

/// The commands of a function's one block in order, a wait counted with its
/// start.
std::vector<ProgramNode> computeDependences(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_DEPENDENCES_H
