//===- RmsNormKernels.h - Normalisation by the root mean square -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Padded elements of x, dy or gamma are zero, and so are those of results.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_RMSNORMKERNELS_H
#define OPTIMUS_KERNELS_RMSNORMKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// x[rows*n], gamma[n] -> y[rows*n], rstd[rows]; y in place of x.
struct RmsNorm {
  int64_t rows, n;
  double epsilon;

  OPTIMUS_KERNEL("rms_norm", rows, n, epsilon);
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

/// dy[rows*n], x[rows*n], rstd[rows] -> dgamma[n].
struct RmsParamGrad {
  int64_t rows, n;

  OPTIMUS_KERNEL("rms_param_grad", rows, n);
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

/// x[rows*n], rstd[rows], gamma[n] -> y[rows*n]; in place of x.
struct RmsScale {
  int64_t rows, n;

  OPTIMUS_KERNEL("rms_scale", rows, n);
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_RMSNORMKERNELS_H
