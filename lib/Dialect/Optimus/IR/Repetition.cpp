//===- Repetition.cpp - The matrix that repeats rows ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Repetition.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

DenseElementsAttr mlir::optimus::getRepetition(MLIRContext *context,
                                               int64_t rows, int64_t cols) {
  assert(rows % cols == 0 && "rows are repeated alike");
  SmallVector<float> elements(rows * cols);
  for (int64_t row = 0; row < rows; ++row)
    elements[row * cols + row / (rows / cols)] = 1;
  return DenseElementsAttr::get(
      RankedTensorType::get({rows, cols}, Float32Type::get(context)),
      ArrayRef<float>(elements));
}

bool mlir::optimus::isRepetition(Attribute value) {
  auto elements = dyn_cast<DenseElementsAttr>(value);
  if (!elements || !elements.getElementType().isF32() ||
      elements.getType().getRank() != 2)
    return false;
  ArrayRef<int64_t> shape = elements.getType().getShape();
  return shape[1] > 0 && shape[0] % shape[1] == 0 &&
         elements == getRepetition(value.getContext(), shape[0], shape[1]);
}
