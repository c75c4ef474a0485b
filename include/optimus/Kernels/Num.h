//===- Num.h - Numbers in the body of a kernel ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_NUM_H
#define OPTIMUS_KERNELS_NUM_H

#include "mlir/IR/Value.h"

namespace mlir::optimus {

class KernelBuilder;

/// A number or a vector of numbers, f32 or f64. Operators repeat a number for
/// every lane of a vector, and leave contraction to fused multiply-add open.
struct Num {
  Value value;
  KernelBuilder *kernel = nullptr;

  Type getType() const { return value.getType(); }
};

Num operator+(Num a, Num b);
Num operator-(Num a, Num b);
Num operator*(Num a, Num b);
Num operator/(Num a, Num b);
Num operator+(Num a, double b);
Num operator+(double a, Num b);
Num operator-(Num a, double b);
Num operator-(double a, Num b);
Num operator*(Num a, double b);
Num operator*(double a, Num b);
Num operator/(double a, Num b);

Num sqrt(Num x);
/// A product that is rounded, and never fused with a sum.
Num multiplyRounded(Num a, Num b);
/// `value` in every lane of x's type.
Num getConstant(Num x, double value);
/// `positive` where x is, else `other`.
Num selectPositive(Num x, Num positive, Num other);

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_NUM_H
