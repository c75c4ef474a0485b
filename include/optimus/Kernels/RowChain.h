//===- RowChain.h - Kernels one after the other on each row -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ROWCHAIN_H
#define OPTIMUS_KERNELS_ROWCHAIN_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// A kernel of a chain, and the chain's buffers and scalars that are its own,
/// in the order of its operands.
struct RowStage {
  Kernel kernel;
  SmallVector<std::string> buffers, scalars;
};

/// Kernels over the same rows as one: all of them do a row before the next, and
/// what one stores the others load while the row is in the cache. Each is
/// written as it is alone, so that its results have the same bits. A chain's
/// operands are the buffers named by its stages, in order of first appearance.
struct RowChain {
  SmallVector<RowStage> stages;

  OPTIMUS_CHECKED_KERNEL("row_chain");
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_ROWCHAIN_H
