//===- OptimizerKernels.h - Norms of gradients, and steps -------*- C++ -*-===//
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

/// param[n], grad[n], exp_avg[n], exp_avg_sq[n], scale[1], lr[1],
/// weight_decay[1], beta1[1], beta2[1], epsilon[1], beta1_power[1],
/// beta2_power[1] -> new_param[n], new_exp_avg[n], new_exp_avg_sq[n]; in place
/// of param, exp_avg and exp_avg_sq.
struct AdamW {
  int64_t n;
  bool decay;

  OPTIMUS_KERNEL("adamw", n, decay);
};

/// param[n], grad[n], momentum_buffer[n], scale[1], lr[1], weight_decay[1],
/// momentum[1] -> new_param[n], new_momentum_buffer[n]; in place of param and
/// momentum_buffer.
struct Sgd {
  int64_t n;
  bool decay;

  OPTIMUS_KERNEL("sgd", n, decay);
};

/// param[n], grad[n], exp_avg[n], exp_avg_sq[n], scale[1], weight_decay[1],
/// beta1[1], beta2[1], epsilon[1], beta1_power[1], beta2_power[1] ->
/// direction[n], new_exp_avg[n], new_exp_avg_sq[n]; in place of grad, exp_avg
/// and exp_avg_sq.
struct LambDirection {
  int64_t n;
  bool decay;

  OPTIMUS_KERNEL("lamb_direction", n, decay);
};

/// param[n], direction[n], lr[1], (param_norm[1], direction_norm[1] if
/// `trust`) -> new_param[n]; in place of param and direction.
struct LambUpdate {
  int64_t n;
  bool trust;

  OPTIMUS_KERNEL("lamb_update", n, trust);
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_OPTIMIZERKERNELS_H
