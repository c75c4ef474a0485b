//===- Finalists.h - Layouts, simulated on a cluster ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_FINALISTS_H
#define OPTIMUS_LIB_PLANNING_FINALISTS_H

#include "optimus/Planning/LayoutChoice.h"

namespace mlir::optimus {

/// Simulates the step of a layout on the question's cluster with each placement
/// of its mesh. `compiled` is what predict() returns.
LogicalResult addFinalists(ModuleOp compiled, const Candidate &layout,
                           const LayoutQuestion &question,
                           std::vector<Finalist> &finalists);

/// The fastest first; of two alike, that with the faster prediction.
void sortFinalists(std::vector<Finalist> &finalists);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_FINALISTS_H
