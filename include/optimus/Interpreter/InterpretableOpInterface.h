//===- InterpretableOpInterface.h - Operations to interpret -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_INTERPRETABLEOPINTERFACE_H
#define OPTIMUS_INTERPRETER_INTERPRETABLEOPINTERFACE_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus {
class Ranks;

/// Attaches the interface to the operations of `optimus` and `ccl` and to
/// `arith.constant`.
void registerInterpreterModels(DialectRegistry &registry);
} // namespace mlir::optimus

#include "optimus/Interpreter/InterpreterInterfaces.h.inc"

#endif // OPTIMUS_INTERPRETER_INTERPRETABLEOPINTERFACE_H
