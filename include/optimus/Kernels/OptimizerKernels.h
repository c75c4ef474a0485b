//===- OptimizerKernels.h - Norms of gradients, clipping --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_OPTIMIZERKERNELS_H
#define OPTIMUS_KERNELS_OPTIMIZERKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// The number of elements that one partial sum of squares covers. The same for
/// all targets: they share the workspace of partial sums.
inline constexpr int64_t kPartial = 16384;

/// The number of partial sums that SumSquares makes of n elements.
inline int64_t getNumPartials(int64_t n) {
  return llvm::divideCeil(n, kPartial);
}

/// x[n] -> f64 partials[getNumPartials(n)].
struct SumSquares {
  int64_t n;

  OPTIMUS_KERNEL("sum_squares", n);
};

/// f64 partials[n] -> sum[1], rounded once.
struct SumPartials {
  int64_t n;

  OPTIMUS_KERNEL("sum_partials", n);
};

/// norm[1], count[1], limit[1] -> scale[1], mean_norm[1].
struct Clip {
  OPTIMUS_KERNEL("clip");
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_OPTIMIZERKERNELS_H
