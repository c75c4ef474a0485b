//===- ExecToProgram.h - The device program as tables -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOPROGRAM_EXECTOPROGRAM_H
#define OPTIMUS_CONVERSION_EXECTOPROGRAM_EXECTOPROGRAM_H

#include "optimus-support/Program.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// The tables of all functions of commands of a module, in its order, for a
/// target called `target`; kernels are those that commands launch, in the order
/// of their first launch. One table serves all ranks.
///
/// Fails with a diagnostic on a command without number or queue, on a buffer
/// without place in the arena, on an axis that the module's mesh lacks.
FailureOr<optimus_support::program::ProgramsT> buildPrograms(ModuleOp module,
                                                             StringRef target);

/// Fails with an error where a runtime would refuse the tables of a module,
/// which is a fault of a pass: `checked` is what check() said of them.
LogicalResult verifyPrograms(ModuleOp module,
                             const optimus_support::Status &checked);

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_EXECTOPROGRAM_EXECTOPROGRAM_H
