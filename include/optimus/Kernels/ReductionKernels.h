//===- ReductionKernels.h - What several ranks have, added ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_REDUCTIONKERNELS_H
#define OPTIMUS_KERNELS_REDUCTIONKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// x0[elements], x1, … of the ranks that share a GPU -> result0, …, one or as
/// many as ranks, each in place of any x. Adds in rank order, or takes the
/// greatest, of which a NaN is one; in f32, and rounds once. The number of
/// elements is that of the launch, at most `elements`.
struct ReduceRanks {
  int64_t ranks, elements;
  bool toAll;   ///< every rank has a result
  bool maximum; ///< and no sum
  /// All that it is ever given begins as tensors do; else with any element.
  bool isAligned;

  OPTIMUS_KERNEL("reduce_ranks", ranks, elements, toAll, maximum, isAligned);

private:
  int64_t getNumResults() const { return toAll ? ranks : 1; }
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_REDUCTIONKERNELS_H
