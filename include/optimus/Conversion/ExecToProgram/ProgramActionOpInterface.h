//===- ProgramActionOpInterface.h - Commands as actions ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOPROGRAM_PROGRAMACTIONOPINTERFACE_H
#define OPTIMUS_CONVERSION_EXECTOPROGRAM_PROGRAMACTIONOPINTERFACE_H

#include "optimus-support/Program.h"

#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus {

class FunctionBuilder;

/// Lets the commands of the exec dialect be written into tables.
void registerProgramActions(DialectRegistry &registry);

} // namespace mlir::optimus

#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.h.inc"

#endif // OPTIMUS_CONVERSION_EXECTOPROGRAM_PROGRAMACTIONOPINTERFACE_H
