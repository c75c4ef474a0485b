//===- Lowerings.cpp - All operations that have a lowering ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoweringModel.h"

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.cpp.inc"

void mlir::optimus::registerExecLowerings(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, OptimusDialect *) {
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
