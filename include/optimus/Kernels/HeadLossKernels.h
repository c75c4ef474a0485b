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

  OPTIMUS_KERNEL("row_max", rows, cols);
};

/// logits[rows*cols] in and out, max[rows], i32 targets[rows] ->
/// sums[rows*2]; scalars first, real. Replaces each logit x by exp(x - max), 0
/// at padding; sums are their total and x - max of the target, 0 where it is
/// elsewhere.
struct ExpSum {
  int64_t rows, cols;

  OPTIMUS_KERNEL("exp_sum", rows, cols);
};

/// logits[rows*cols] in and out; scalar real. The padding of each row becomes
/// −∞.
struct PadLogits {
  int64_t rows, cols;

  OPTIMUS_KERNEL("pad_logits", rows, cols);
};

/// RowMax and ExpSum in one, the maximum kept private: logits[rows*cols] in and
/// out, i32 targets[rows] -> sums[rows*2]; scalars first, real. With `grad`
/// the work of LogitsGrad is done too, row by row while the row is in the
/// cache: for large vocabularies a pass through memory less.
struct SoftmaxSums {
  int64_t rows, cols;
  bool grad = false;

  OPTIMUS_KERNEL("softmax_sums", rows, cols, grad);
};

/// The sums of SoftmaxSums of logits that stay as they are, as narrow ones
/// must: logits[rows*cols], i32 targets[rows] -> sums[rows*2]; scalars first,
/// real. With `grad` their gradients replace them, each rounded once.
struct LogitSums {
  int64_t rows, cols;
  bool grad = false;

  OPTIMUS_KERNEL("logit_sums", rows, cols, grad);
};

/// The same of a rank's part of the vocabulary, max[rows] given:
/// logits[rows*cols], max[rows], i32 targets[rows] -> sums[rows*2]; scalars
/// first, real.
struct PartialLogitSums {
  int64_t rows, cols;

  OPTIMUS_KERNEL("partial_logit_sums", rows, cols);
};

/// And its gradients, of the whole vocabulary's sums: logits[rows*cols] in and
/// out, max[rows], sums[rows*2], i32 targets[rows]; scalars first, real.
struct PartialLogitsGrad {
  int64_t rows, cols;

  OPTIMUS_KERNEL("partial_logits_grad", rows, cols);
};

/// sums[rows*2], i32 targets[rows] -> losses[rows]: log of the total minus the
/// target's, 0 where the target is negative.
struct TokenLoss {
  int64_t rows;

  OPTIMUS_KERNEL("token_loss", rows);
};

/// logits[rows*cols] -> result[rows*2*count]: of each row the highest logits,
/// the first of equal ones first, and then their columns as numbers. A logit
/// that is no number counts as infinite, −∞ as none: there are −∞ and −1 where
/// too few are left. A row is read twice for each of them.
struct Best {
  int64_t rows, cols, count;

  OPTIMUS_KERNEL("best", rows, cols, count);
};

/// logits[rows*cols], i32 targets[rows] -> result[rows]: the target's logit
/// minus the logarithm of the sum of exponentials; 0 where the target is
/// negative.
struct LogProbabilities {
  int64_t rows, cols;

  OPTIMUS_KERNEL("log_probabilities", rows, cols);
};

/// logits[rows*cols] in and out, sums[rows*2], i32 targets[rows]; scalar first.
/// Replaces e of ExpSum by e/total - onehot(target), 0 where the target is
/// negative.
struct LogitsGrad {
  int64_t rows, cols;

  OPTIMUS_KERNEL("logits_grad", rows, cols);
};

/// losses[n] -> sum[1], accumulated in f64.
struct SumTokens {
  int64_t n;

  OPTIMUS_KERNEL("sum_tokens", n);
};

/// i32 targets[n] -> count[1], as f32: how many are at least 0.
struct CountReal {
  int64_t n;

  OPTIMUS_KERNEL("count_real", n);
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_HEADLOSSKERNELS_H
