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

  static constexpr StringLiteral kKind = "rms_norm";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// dy[rows*n], x[rows*n], rstd[rows], gamma[n], (sums[rows] if `hasSums`),
/// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; in place of dy, x and
/// residual. `size` is the true extent of the whole row.
struct RmsNormGrad {
  int64_t rows, n;
  int64_t size;
  bool hasSums, hasResidual;

  static constexpr StringLiteral kKind = "rms_norm_grad";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// dy[rows*n], x[rows*n], rstd[rows] -> dgamma[n].
struct RmsParamGrad {
  int64_t rows, n;

  static constexpr StringLiteral kKind = "rms_param_grad";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// a[rows*n], b[rows*n], (weight[n] if `hasWeight`) -> sums[rows].
struct RowDot {
  int64_t rows, n;
  bool hasWeight;

  static constexpr StringLiteral kKind = "row_dot";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// squares[rows] -> rstd[rows]; in place.
struct RmsRstd {
  int64_t rows, size;
  double epsilon;

  static constexpr StringLiteral kKind = "rms_rstd";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// x[rows*n], rstd[rows], gamma[n] -> y[rows*n]; in place of x.
struct RmsScale {
  int64_t rows, n;

  static constexpr StringLiteral kKind = "rms_scale";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_RMSNORMKERNELS_H
