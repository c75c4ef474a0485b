//===- RowStages.cpp - What kernels of rows make together -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowStages.h"

#include "NestedSchedule.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

bool kernels::sumsColumns(const KernelDescription &description) {
  return description.getSpace().kind == IterationSpace::Columns;
}

void kernels::describeStages(KernelDescription &description, StringRef stem,
                             ArrayRef<RowStage> stages, int64_t together) {
  std::string name = stem.str(), wires;
  int64_t rows = 0, work = 0, longest = 0;
  for (const RowStage &stage : stages) {
    KernelDescription part = stage.kernel.describe(description.getContext());
    name += "_" + part.getName();
    const IterationSpace &space = part.getSpace();
    assert((rows == 0 || space.rows == rows) && "stages of other rows");
    rows = space.rows;
    work += space.cols;
    longest = std::max(longest, space.cols);
    for (auto [operand, buffer] :
         llvm::zip_equal(part.getOperands(), stage.buffers)) {
      wires += buffer + ",";
      KernelOperand shared = operand;
      if (sumsColumns(part) && operand.access != KernelAccess::Read)
        shared.extent *= llvm::divideCeil(rows, together);
      description.share(buffer, shared);
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

void kernels::buildRow(KernelBuilder &k, const RowStage &stage, Value row) {
  NestedRow schedule(k.getSchedule(), row);
  KernelDescription description =
      stage.kernel.describe(k.getBuilder().getContext());
  KernelBuilder part(k, description, schedule, stage.buffers, stage.scalars);
  stage.kernel.build(part);
}
