//===- Lowerings.cpp - All operations that have a lowering ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

#include "optimus/Kernels/ElementwiseBodyOpInterface.h"

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.cpp.inc"

InPlaceOperands mlir::optimus::getPlaces(const Kernel &kernel, Operation *op,
                                         unsigned result) {
  KernelDescription description = kernel.describe(op->getContext());
  ArrayRef<KernelOperand> operands = description.getOperands();
  InPlaceOperands places;
  unsigned position = op->getNumOperands() + result;
  if (position < operands.size())
    for (StringRef place : operands[position].places)
      places.push_back(*description.findOperand(place));
  return places;
}

void mlir::optimus::registerExecLowerings(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, OptimusDialect *) {
    attachElementwiseBodies(*context);
    attachAttentionLowerings(*context);
    attachElementwiseLowerings(*context);
    attachEmbeddingLowerings(*context);
    attachLocalLossLowerings(*context);
    attachMatmulLowering(*context);
    attachNormLowerings(*context);
    attachOptimizerLowerings(*context);
    attachFusionSlots(*context);
  });
  registry.addExtension(+[](MLIRContext *context, ccl::CCLDialect *) {
    attachCollectiveLowerings(*context);
    attachDistributedLossLowerings(*context);
    attachPanelLowering(*context);
  });
}
