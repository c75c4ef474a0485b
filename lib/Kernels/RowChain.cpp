//===- RowChain.cpp - Kernels one after the other on each row ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/RowChain.h"

#include "WithinIteration.h"

#include "llvm/Support/xxhash.h"

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
  MLIRContext *context = description.getContext();
  std::string name = "chain", wires;
  int64_t rows = 0, work = 0, longest = 0;
  for (const RowStage &stage : stages) {
    KernelDescription part = stage.kernel.describe(context);
    name += "_" + part.getName();
    const IterationSpace &space = part.getSpace();
    assert(hasRows(space) && (rows == 0 || space.rows == rows));
    rows = space.rows;
    work += space.cols;
    longest = std::max(longest, space.cols);
    for (auto [operand, buffer] :
         llvm::zip_equal(part.getOperands(), stage.buffers)) {
      wires += buffer + ",";
      description.share(buffer, operand);
    }
    for (const std::string &scalar : stage.scalars) {
      wires += scalar + ";";
      if (!description.findScalar(scalar))
        description.scalar(scalar);
    }
  }
  description.setStem(name);
  description.text(llvm::utohexstr(llvm::xxh3_64bits(wires)));
  description.overChain(rows, work, longest);
}

void RowChain::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    for (const RowStage &stage : stages) {
      k.separate();
      WithinRow schedule(k.getSchedule(), row);
      KernelDescription description =
          stage.kernel.describe(k.getBuilder().getContext());
      KernelBuilder part(k, description, schedule, stage.buffers,
                         stage.scalars);
      stage.kernel.build(part);
    }
  });
}
