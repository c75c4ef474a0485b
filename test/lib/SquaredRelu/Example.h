//===- Example.h - A dialect from outside -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TEST_LIB_SQUAREDRELU_EXAMPLE_H
#define OPTIMUS_TEST_LIB_SQUAREDRELU_EXAMPLE_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/ElementwiseBodyOpInterface.h"

#include "ExampleDialect.h.inc"
#define GET_OP_CLASSES
#include "SquaredRelu.h.inc"

#endif // OPTIMUS_TEST_LIB_SQUAREDRELU_EXAMPLE_H
