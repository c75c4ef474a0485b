//===- Tensor.h - The interpreter's tensors ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_TENSOR_H
#define OPTIMUS_INTERPRETER_TENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::optimus {

/// A dense tensor, row-major. Token ids are held as f64 too, which has all of
/// i32.
struct Tensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> elements;

  static Tensor filled(llvm::ArrayRef<int64_t> shape, double value) {
    Tensor tensor;
    tensor.shape.assign(shape.begin(), shape.end());
    int64_t count = 1;
    for (int64_t extent : shape)
      count *= extent;
    tensor.elements.assign(count, value);
    return tensor;
  }
  static Tensor zeros(llvm::ArrayRef<int64_t> shape) {
    return filled(shape, 0);
  }
  static Tensor scalar(double value) { return filled({}, value); }

  int64_t getNumElements() const { return elements.size(); }
  /// The last dimension, and the product of the others.
  int64_t getNumCols() const { return shape.back(); }
  int64_t getNumRows() const { return getNumElements() / getNumCols(); }

  double &operator[](int64_t index) { return elements[index]; }
  double operator[](int64_t index) const { return elements[index]; }
};

/// A result of a program.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  bool isInteger;
};

/// The largest magnitude of an element; 0 for none, infinity for a NaN.
double getMagnitude(const Tensor &tensor);

/// The largest distance between elements of two tensors of one shape. NaNs are
/// equal to each other and infinitely far from anything else.
double getDistance(const Tensor &a, const Tensor &b);

/// The nearest number of a type of floats, the even one of two.
llvm::APFloat roundTo(FloatType type, double number);

} // namespace mlir::optimus

#endif // OPTIMUS_INTERPRETER_TENSOR_H
