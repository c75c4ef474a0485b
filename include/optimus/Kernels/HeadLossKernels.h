//===- HeadLossKernels.h - Softmax and loss of a chunk of logits ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Logits [rows, cols]: columns [0, real) stand for vocabulary entries
// [first, first + real), the others are padding.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_HEADLOSSKERNELS_H
#define OPTIMUS_KERNELS_HEADLOSSKERNELS_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// logits[rows*cols] -> max[rows], over the real columns, the lowest finite
/// float where there is none; scalar real.
struct RowMax {
  int64_t rows, cols;

  static constexpr StringLiteral kKind = "row_max";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// logits[rows*cols] in and out, max[rows], i32 targets[rows] ->
/// sums[rows*2]; scalars first, real. Replaces each logit x by exp(x - max), 0
/// at padding; sums are their total and x - max of the target, 0 where it is
/// elsewhere.
struct ExpSum {
  int64_t rows, cols;

  static constexpr StringLiteral kKind = "exp_sum";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// RowMax and ExpSum in one, the maximum kept private: logits[rows*cols] in and
/// out, i32 targets[rows] -> sums[rows*2]; scalars first, real. With `withGrad`
/// the work of LogitsGrad is done too, row by row while the row is in the
/// cache: for large vocabularies a pass through memory less.
struct SoftmaxSums {
  int64_t rows, cols;
  bool withGrad = false;

  static constexpr StringLiteral kKind = "softmax_sums";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// sums[rows*2], i32 targets[rows] -> losses[rows]: log of the total minus the
/// target's, 0 where the target is negative.
struct TokenLoss {
  int64_t rows;

  static constexpr StringLiteral kKind = "token_loss";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// logits[rows*cols] in and out, sums[rows*2], i32 targets[rows]; scalar first.
/// Replaces e of ExpSum by e/total - onehot(target), 0 where the target is
/// negative.
struct LogitsGrad {
  int64_t rows, cols;

  static constexpr StringLiteral kKind = "logits_grad";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// losses[n] -> sum[1], accumulated in f64.
struct SumTokens {
  int64_t n;

  static constexpr StringLiteral kKind = "sum_tokens";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

/// i32 targets[n] -> count[1], as f32: how many are at least 0.
struct CountReal {
  int64_t n;

  static constexpr StringLiteral kKind = "count_real";
  void visit(KernelParameters &parameters);
  void describe(KernelDescription &description) const;
  void build(KernelBuilder &k) const;
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_HEADLOSSKERNELS_H
