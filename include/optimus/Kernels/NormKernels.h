//===- NormKernels.h - Normalisation ----------------------------*- C++ -*-===//
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
// LayerNorm and RMSNorm are one family: where `centered`, a kernel subtracts
// the mean and has beta, else it has none of what is in parentheses. Padded
// elements of what RMSNorm is given are zero, and so are those of its results.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_NORMKERNELS_H
#define OPTIMUS_KERNELS_NORMKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// x[rows*n], gamma[n], (beta[n]) -> y[rows*n], (mean[rows]), rstd[rows]; y in
/// place of x.
template <bool centered>
struct Norm {
  int64_t rows, n;
  double epsilon;

  OPTIMUS_KERNEL(centered ? "layer_norm" : "rms_norm", rows, n, epsilon);
};
using LayerNorm = Norm<true>;
using RmsNorm = Norm<false>;

/// x[rows*n], (mean[rows]), rstd[rows], gamma[n], (beta[n]) -> y[rows*n]; in
/// place of x.
template <bool centered>
struct ApplyNorm {
  int64_t rows, n;

  OPTIMUS_KERNEL(centered ? "normalize" : "rms_scale", rows, n);
};
using Normalize = ApplyNorm<true>;
using RmsScale = ApplyNorm<false>;

/// dy[rows*n], x[rows*n], (mean[rows]), rstd[rows] -> dgamma[n], (dbeta[n]).
template <bool centered>
struct ParamGrad {
  int64_t rows, n;

  OPTIMUS_KERNEL(centered ? "norm_param_grad" : "rms_param_grad", rows, n);
};
using NormParamGrad = ParamGrad<true>;
using RmsParamGrad = ParamGrad<false>;

/// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n],
/// (residual[rows*n] if `residual`) -> dx[rows*n]; in place of dy, x and
/// residual.
struct LayerNormGrad {
  int64_t rows, n;
  bool residual;

  OPTIMUS_KERNEL("layer_norm_grad", rows, n, residual);
};

/// dy[rows*n], x[rows*n], rstd[rows], gamma[n], (sums[rows] if `sums`),
/// (residual[rows*n] if `residual`) -> dx[rows*n]; in place of dy, x and
/// residual. `size` is the true extent of the whole row.
struct RmsNormGrad {
  int64_t rows, n;
  int64_t size;
  bool sums, residual;

  OPTIMUS_KERNEL("rms_norm_grad", rows, n, size, sums, residual);
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

/// a[rows*n], b[rows*n], (weight[n] if `weight`) -> sums[rows].
struct RowDot {
  int64_t rows, n;
  bool weight;

  OPTIMUS_KERNEL("row_dot", rows, n, weight);
};

/// squares[rows] -> rstd[rows]; in place.
struct RmsRstd {
  int64_t rows, size;
  double epsilon;

  OPTIMUS_KERNEL("rms_rstd", rows, size, epsilon);
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
