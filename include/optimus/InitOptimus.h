//===- InitOptimus.h - Registers dialects and passes ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INITOPTIMUS_H
#define OPTIMUS_INITOPTIMUS_H

#include "mlir/IR/DialectRegistry.h"

namespace mlir::optimus {

/// Every dialect that a program of ours meets on its way to a model library.
void registerAllDialects(DialectRegistry &registry);

/// Our passes, and those of MLIR that go well with them.
/// Devices that code can be made for. Every call after the first does nothing,
/// from any thread.
void registerAllTargets();

/// Their names for command lines, and the targets. Once in a process.
void registerAllPasses();

} // namespace mlir::optimus

#endif // OPTIMUS_INITOPTIMUS_H
