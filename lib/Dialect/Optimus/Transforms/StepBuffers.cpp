//===- StepBuffers.cpp - What a step is given and returns -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepBuffers.h"

using namespace mlir;
using namespace mlir::optimus;

BufferAttr StepBuffers::getOutput(StringRef role, StringAttr of) const {
  return BufferAttr::get(context, role, of, Lifetime::Call, /*init=*/{},
                         Reset::Never, FilledBy::Program, SavedIn::Nowhere);
}

BufferAttr StepBuffers::getScalar(StringRef role) const {
  return BufferAttr::get(context, role, /*of=*/{}, Lifetime::Call, /*init=*/{},
                         Reset::Never, FilledBy::Host, SavedIn::Nowhere);
}

BufferAttr StepBuffers::getState(StringRef role, StringAttr of) const {
  return BufferAttr::get(context, role, of, Lifetime::State, getZeros(),
                         Reset::Never, FilledBy::Program, SavedIn::Optimizer);
}

BufferAttr StepBuffers::getGradientSum(StringAttr of) const {
  return getSum("grad_sum", of);
}

BufferAttr StepBuffers::getSum(StringRef role, StringAttr of) const {
  return BufferAttr::get(context, role, of, Lifetime::Sequence, getZeros(),
                         Reset::Step, FilledBy::Program, SavedIn::Nowhere);
}

InitAttr StepBuffers::getZeros() const {
  return InitAttr::get(context, "zeros", Builder(context).getF64FloatAttr(0),
                       /*stream=*/0);
}
