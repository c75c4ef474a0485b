//===- DeviceInterfaces.h - Commands and kernels to interpret ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_DEVICEINTERFACES_H
#define OPTIMUS_INTERPRETER_DEVICEINTERFACES_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::exec {
class Devices;
class KernelFrame;
} // namespace mlir::exec

#include "optimus/Interpreter/DeviceInterfaces.h.inc"

#endif // OPTIMUS_INTERPRETER_DEVICEINTERFACES_H
