//===- Commands.h - The commands of a device program ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_IR_COMMANDS_H
#define OPTIMUS_DIALECT_EXEC_IR_COMMANDS_H

#include "optimus/Dialect/Exec/IR/Exec.h"

namespace mlir::exec {

/// Whether there are commands in `root`, as a function is.
bool hasCommands(Operation *root);

/// The commands in `root`, in their order.
SmallVector<CommandOpInterface> getCommands(Operation *root);

/// Numbers the commands in `root` by their order, from 0. Returns how many
/// there are.
int64_t numberCommands(Operation *root);

/// The keys that an attention reads: those of its tokens, where both are 0. Its
/// gradient reads no others.
struct AttentionKeys {
  int64_t capacity = 0; ///< of each sequence's cache
  int64_t pool = 0;     ///< pages that caches are in
};
AttentionKeys getAttentionKeys(Operation *attention);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_IR_COMMANDS_H
