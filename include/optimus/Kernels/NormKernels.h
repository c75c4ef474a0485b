//===- NormKernels.h - Layer normalisation ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers with their numbers of elements in brackets, results after `->`. In
// kernels of rows that are sharded among ranks, `real` is the number of
// unpadded elements of the local row, 0 to n.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_NORMKERNELS_H
#define OPTIMUS_KERNELS_NORMKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// x[rows*n], gamma[n], beta[n] -> y[rows*n], mean[rows], rstd[rows]; y in
/// place of x.
struct LayerNorm {
  int64_t rows, n;
  double epsilon;

  OPTIMUS_KERNEL("layer_norm", rows, n, epsilon);
};

/// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n],
/// (residual[rows*n] if `residual`) -> dx[rows*n]; in place of dy, x and
/// residual.
struct LayerNormGrad {
  int64_t rows, n;
  bool residual;

  OPTIMUS_KERNEL("layer_norm_grad", rows, n, residual);
};

/// dy[rows*n], x[rows*n], mean[rows], rstd[rows] -> dgamma[n], dbeta[n].
struct NormParamGrad {
  int64_t rows, n;

  OPTIMUS_KERNEL("norm_param_grad", rows, n);
};

/// x[rows*n] -> moments[rows*2], as (mean, M2); scalar real.
struct RowMoments {
  int64_t rows, n;

  OPTIMUS_KERNEL("row_moments", rows, n);
};

/// moments[rows*2*counts.size()] -> mean[rows], rstd[rows].
struct MergeMoments {
  int64_t rows;
  SmallVector<int64_t> counts;
  double epsilon;

  OPTIMUS_KERNEL("merge_moments", rows, counts, epsilon);
};

/// x[rows*n], mean[rows], rstd[rows], gamma[n], beta[n] -> y[rows*n]; in
/// place of x.
struct Normalize {
  int64_t rows, n;

  OPTIMUS_KERNEL("normalize", rows, n);
};

/// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n] -> sums[rows*2].
struct NormGradSums {
  int64_t rows, n;

  OPTIMUS_KERNEL("norm_grad_sums", rows, n);
};

/// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n], sums[rows*2],
/// (residual[rows*n] if `residual`) -> dx[rows*n]; scalar real; in place of
/// dy, x and residual. `size` is the true extent of the whole row.
struct NormGradApply {
  int64_t rows, n;
  int64_t size;
  bool residual;

  OPTIMUS_KERNEL("norm_grad_apply", rows, n, size, residual);
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_NORMKERNELS_H
