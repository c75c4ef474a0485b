//===- MeshRanks.h - How many ranks lie along an axis -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_MESHRANKS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_MESHRANKS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

namespace mlir::optimus {

/// The ranks along an axis: one where there is no mesh, or none of that name in
/// it.
inline int64_t getRanksAlong(MeshOp mesh, StringRef axis) {
  return mesh ? mesh.getAxisSize(axis).value_or(1) : 1;
}

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_MESHRANKS_H
