//===- Prediction.h - What a schedule says of time --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_PREDICTION_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_PREDICTION_H

#include "optimus/Analysis/CostModel.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::exec {

/// The functions that a step of training calls, in their order: `train` alone;
/// with microbatches `prepare`, `accumulate` and `update`.
SmallVector<SmallVector<func::FuncOp>> listTrainingCalls(ModuleOp module);

/// Puts the prediction of a call into the entries of an `exec.schedule`, in
/// place of the one that is there.
void setPrediction(NamedAttrList &entries,
                   const optimus::StepPrediction &prediction,
                   MLIRContext *context);

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_PREDICTION_H
