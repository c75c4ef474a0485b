//===- StepBuffers.h - What a step is given and returns ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The buffers of the functions that --optimus-build-step makes.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_STEPBUFFERS_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_STEPBUFFERS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

namespace mlir::optimus {

class StepBuffers {
public:
  /// With `accumulates`, loss and number of real tokens are added up over the
  /// microbatches of a step.
  StepBuffers(MLIRContext *context, bool accumulates)
      : context(context), accumulates(accumulates) {}

  /// What a function returns of one call.
  BufferAttr getOutput(StringRef role, StringAttr of = {}) const;
  /// A number that the caller sets.
  BufferAttr getScalar(StringRef role) const;
  /// The gradient of a parameter.
  BufferAttr getGradient(StringAttr of) const { return getOutput("grad", of); }
  /// What an optimizer keeps of a parameter.
  BufferAttr getState(StringRef role, StringAttr of) const;
  /// The sum of a parameter's gradients over microbatches.
  BufferAttr getGradientSum(StringAttr of) const;
  BufferAttr getLossSum() const { return getBatchSum("loss_sum"); }
  BufferAttr getRealCount() const { return getBatchSum("real_count"); }

private:
  BufferAttr getSum(StringRef role, StringAttr of) const;
  BufferAttr getBatchSum(StringRef role) const {
    return accumulates ? getSum(role, {}) : getOutput(role);
  }
  InitAttr getZeros() const;

  MLIRContext *context;
  bool accumulates;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_STEPBUFFERS_H
