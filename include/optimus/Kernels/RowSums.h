//===- RowSums.h - Sums of columns of rows that are made --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_ROWSUMS_H
#define OPTIMUS_KERNELS_ROWSUMS_H

#include "optimus/Kernels/RowChain.h"

namespace mlir::optimus::kernels {

/// Kernels over the same rows as one, as RowChain, some of which sum columns:
/// all of them do so many rows before the next ones, and what some store the
/// others load while it is in the cache. What a sum is of is these rows: its
/// operand has a part for each group of rows, one after the other, of as many
/// elements as the sum alone writes. SumLeading adds them up.
struct RowSums {
  SmallVector<RowStage> stages;
  int64_t together = 1; ///< rows of a group

  OPTIMUS_CHECKED_KERNEL("row_sums");
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_ROWSUMS_H
