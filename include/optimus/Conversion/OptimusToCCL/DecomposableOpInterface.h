//===- DecomposableOpInterface.h - Operations that reduce in the middle -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_OPTIMUSTOCCL_DECOMPOSABLEOPINTERFACE_H
#define OPTIMUS_CONVERSION_OPTIMUSTOCCL_DECOMPOSABLEOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus {

class Partitioner;

/// Lets the operations of the optimus dialect that reduce in the middle be
/// partitioned.
void registerDecompositions(DialectRegistry &registry);

} // namespace mlir::optimus

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.h.inc"

#endif // OPTIMUS_CONVERSION_OPTIMUSTOCCL_DECOMPOSABLEOPINTERFACE_H
