//===- Checks.h - What must hold after an operation -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_CHECKS_H
#define OPTIMUS_LIB_INTERPRETER_CHECKS_H

#include "optimus/Interpreter/Ranks.h"

#include "mlir/IR/Operation.h"

namespace mlir::optimus {

/// Checks that ranks with the same part of `value`, by its type, hold the same
/// bits. Errors go to `op`, which computed or takes it.
LogicalResult checkReplicas(Operation *op, StringRef name, Value value,
                            const Ranks &ranks);

/// Checks that a value, all of its padding, is zero there.
LogicalResult checkPadding(Operation *op, StringRef name, Value value,
                           const Ranks &ranks);

/// Checks the results of `op`, put together, against what the same operation
/// gives on its whole operands.
LogicalResult checkSerialSemantics(Operation *op, const Ranks &ranks,
                                   ArrayRef<Tensor> expected);

/// Checks that a collective has not changed its global value.
LogicalResult checkIdentity(Operation *op, const Ranks &ranks);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_INTERPRETER_CHECKS_H
