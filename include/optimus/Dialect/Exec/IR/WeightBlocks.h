//===- WeightBlocks.h - How packed weights of IR lie ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_IR_WEIGHTBLOCKS_H
#define OPTIMUS_DIALECT_EXEC_IR_WEIGHTBLOCKS_H

#include "optimus-support/WeightBlocks.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

namespace mlir::exec {

/// The same, as tables have it.
inline optimus_support::WeightBlocks getWeightBlocks(Blocks blocks) {
  static_assert(int(Blocks::Int8) == int(optimus_support::WeightBlocks::Int8) &&
                int(Blocks::Int4) == int(optimus_support::WeightBlocks::Int4) &&
                int(Blocks::BF16) == int(optimus_support::WeightBlocks::BF16));
  return static_cast<optimus_support::WeightBlocks>(blocks);
}

/// Where a weight B [k,n] lies in blocks.
inline optimus_support::BlockLayout getBlockLayout(Blocks blocks, int64_t k,
                                                   int64_t n) {
  return {getWeightBlocks(blocks), k, n};
}

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_IR_WEIGHTBLOCKS_H
