//===- ToyMath.h - What the model written by hand computes with ---*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A model library imports no symbol, those of the C library included.

#ifndef OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYMATH_H
#define OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYMATH_H

/// e to the power of x, to the last bit but one.
float toyExp(float x);

/// The natural logarithm of a positive normal number, to the last bit but one.
float toyLog(float x);

#endif // OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYMATH_H
