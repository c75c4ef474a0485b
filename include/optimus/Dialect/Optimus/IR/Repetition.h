//===- Repetition.h - The matrix that repeats rows --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_REPETITION_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_REPETITION_H

#include "mlir/IR/BuiltinAttributes.h"

namespace mlir::optimus {

/// The f32 matrix E of `rows` and `cols` with E[i, j] = 1 where j = i over
/// rows / cols, else 0: E·W is W with each of its rows so many times, one after
/// the other, and Eᵀ·dW adds their gradients up.
DenseElementsAttr getRepetition(MLIRContext *context, int64_t rows,
                                int64_t cols);

bool isRepetition(Attribute value);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_REPETITION_H
