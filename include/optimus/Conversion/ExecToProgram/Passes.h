//===- Passes.h - The device program as tables of commands ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOPROGRAM_PASSES_H
#define OPTIMUS_CONVERSION_EXECTOPROGRAM_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::optimus {

#define GEN_PASS_DECL
#include "optimus/Conversion/ExecToProgram/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "optimus/Conversion/ExecToProgram/Passes.h.inc"

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_EXECTOPROGRAM_PASSES_H
