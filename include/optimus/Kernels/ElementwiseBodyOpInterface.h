//===- ElementwiseBodyOpInterface.h - Scalar bodies of operations ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE_H
#define OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE_H

#include "optimus/Kernels/Num.h"

#include "mlir/IR/OpDefinition.h"

#include <optional>

namespace mlir::optimus {

/// Gives operations of the optimus dialect their scalar bodies.
void attachElementwiseBodies(MLIRContext &context);

/// The names of what an operation computes of each element.
struct ElementwiseNames {
  /// Operands with an element for each of a result, and then those with one for
  /// all.
  SmallVector<StringRef> tensors, numbers;
  struct Result {
    StringRef name;
    /// The tensors that it may be in place of, the preferred first.
    SmallVector<StringRef> places;
  };
  SmallVector<Result> results;
  /// An option in the kernel's name, if not empty.
  StringRef option;
};

} // namespace mlir::optimus

#include "optimus/Kernels/ElementwiseBodyOpInterface.h.inc"

#endif // OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE_H
