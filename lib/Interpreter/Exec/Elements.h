//===- Elements.h - Elements as bytes ---------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_EXEC_ELEMENTS_H
#define OPTIMUS_LIB_INTERPRETER_EXEC_ELEMENTS_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::exec {

/// The nearest number of a type of floats.
double roundTo(Type type, double value);

/// An element as it lies in memory. Of integers, those of i32.
double loadElement(Type type, const char *bytes);
/// Stores what `roundTo` makes of a float.
void storeElement(Type type, double value, char *bytes);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_INTERPRETER_EXEC_ELEMENTS_H
