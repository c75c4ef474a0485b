//===- Decompositions.cpp - Decompositions by family ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decompositions.h"

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.cpp.inc"

void mlir::optimus::registerDecompositions(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, OptimusDialect *) {
    attachNormDecompositions(*context);
    attachTokenDecompositions(*context);
    attachOptimizerDecompositions(*context);
  });
}
