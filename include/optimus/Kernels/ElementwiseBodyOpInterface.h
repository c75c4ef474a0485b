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

namespace mlir::optimus {

/// Gives operations of the optimus dialect their scalar bodies.
void attachElementwiseBodies(MLIRContext &context);

} // namespace mlir::optimus

#include "optimus/Kernels/ElementwiseBodyOpInterface.h.inc"

#endif // OPTIMUS_KERNELS_ELEMENTWISEBODYOPINTERFACE_H
