//===- LayoutBounds.h - What a layout takes at least ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Closed forms for a mesh of D replicas of R rows and C columns, of P
// parameters, in products of activations X with parameters W to activations Y:
//
//   memory   P/(RC) of parameters and P/(DRC) of each state, in f32
//   row      of each W/C twice, for Y and for X's gradient, and W's gradient
//   col      of each X/(DR), or of all Y of it, once forward and once backward
//   data     of P/(RC) the gradients and what becomes of the parameters
//
// They leave out what has other forms, so a layout takes no less.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_LAYOUTBOUNDS_H
#define OPTIMUS_LIB_PLANNING_LAYOUTBOUNDS_H

#include "optimus/Analysis/CostModel.h"
#include "optimus/Planning/LayoutChoice.h"

namespace mlir::optimus {

class LayoutBounds {
public:
  /// Of a program with @loss.
  LayoutBounds(ModuleOp module, const LayoutQuestion &question);

  /// The bytes of a rank, and the milliseconds that the busiest axis of the
  /// mesh is busy in a step.
  int64_t getRankBytes(const Candidate &candidate) const;
  double getStepMs(const Candidate &candidate) const;

private:
  MachineProfile profile;
  /// Bytes of an element that moves.
  double narrow;
  size_t numStates;
  /// Elements: of all parameters, of those in products, and of the smaller
  /// activations beside them.
  double parameters = 0, weights = 0, activations = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_LAYOUTBOUNDS_H
