//===- ExecLoweringOpInterface.h - Operations as commands -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_TOEXEC_EXECLOWERINGOPINTERFACE_H
#define OPTIMUS_CONVERSION_TOEXEC_EXECLOWERINGOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus {

class Lowering;

/// An operand that fusion can add to an operation, and its role there.
struct FusionSlot {
  enum Kind { Bias, Residual, Scale };
  Kind kind;
  MutableOperandRange operand;
};

/// Lets the operations of the optimus and ccl dialects be lowered and fused.
void registerExecLowerings(DialectRegistry &registry);

/// Gives a lowering to every operation with an ElementwiseBodyOpInterface of
/// the loaded dialects. A dialect of one's own calls it when it has added its
/// operations.
void attachElementwiseLowerings(MLIRContext &context);

} // namespace mlir::optimus

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h.inc"

#endif // OPTIMUS_CONVERSION_TOEXEC_EXECLOWERINGOPINTERFACE_H
