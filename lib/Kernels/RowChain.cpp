//===- RowChain.cpp - Kernels one after the other on each row ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/RowChain.h"

#include "RowStages.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

/// Whether the iterations of a space can be those of rows.
static bool hasRows(const IterationSpace &space) {
  return space.kind == IterationSpace::Rows ||
         space.kind == IterationSpace::Elements;
}

void RowChain::visit(KernelParameters &parameters) {
  parameters.stages("stages", stages);
  parameters.require(
      llvm::all_of(
          stages,
          [&](const RowStage &stage) {
            return hasRows(
                stage.kernel.describe(parameters.getContext()).getSpace());
          }),
      "has a stage that does not go over rows");
}

void RowChain::describe(KernelDescription &description) const {
  describeStages(description, "chain", stages);
}

void RowChain::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    for (const RowStage &stage : stages) {
      k.separate();
      buildRow(k, stage, row);
    }
  });
}
