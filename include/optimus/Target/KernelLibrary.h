//===- KernelLibrary.h - The kernels that a target offers -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is a function
//
//   func.func private @name(%begin: index, %end: index,
//                           memref<NxT>..., scalars...)
//       attributes {exec.kernel}
//
// on flat, contiguous, row-major buffers, buffers before scalars. It does
// iterations [begin, end) of its iteration space; iterations are independent
// and each runs the same instructions whatever the split, so any division
// among threads gives the same bits. What an iteration covers (a row, a block
// of columns, a block of elements) is the kernel's own affair.
//
// Each method below gives one kernel: buffers in the order listed, with
// element type f32 and their numbers of elements in brackets unless said
// otherwise, outputs after `->`. The function is built on first use; calls
// with the same arguments share it. An output may be the same buffer as an
// input where noted "in place": then every element is read before it is
// written. Buffers must not overlap in any other way.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_KERNELLIBRARY_H
#define OPTIMUS_TARGET_KERNELLIBRARY_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Types.h"

#include <optional>

namespace mlir::optimus {

/// A kernel and its iteration space.
struct KernelLaunch {
  FlatSymbolRefAttr kernel;
  int64_t extent; ///< iterations [0, extent)
  int64_t grain;  ///< least number of iterations worth a task
};

/// Every target has its own, which adds the functions to a module.
class KernelLibrary {
public:
  virtual ~KernelLibrary() = default;

  // -- Elementwise ----------------------------------------------------------

  /// lhs[rows*cols], rhs[cols] -> result[rows*cols]; in place on lhs, and on
  /// rhs if rows is 1.
  virtual KernelLaunch add(int64_t rows, int64_t cols) = 0;
  virtual KernelLaunch mul(int64_t rows, int64_t cols) = 0;
  /// x[rows*cols] -> result[cols], the sums of the columns.
  virtual KernelLaunch sumLeading(int64_t rows, int64_t cols) = 0;
  /// x[n] -> result[n]; in place. The tanh form, or with erf if `exact`.
  virtual KernelLaunch gelu(int64_t n, bool exact = false) = 0;
  /// x[n] -> result[n], slope[n]; in place on either.
  virtual KernelLaunch geluWithSlope(int64_t n, bool exact = false) = 0;
  /// x[n] of type `from` -> result[n] of type `to`, rounded to nearest even;
  /// NaN stays NaN. Both are f32, bf16 or f16.
  virtual KernelLaunch cast(int64_t n, Type from, Type to) = 0;
  /// x[n] -> result[n]; in place.
  virtual KernelLaunch sqrt(int64_t n) = 0;
  /// gate[n], up[n] -> result[n]; in place on either.
  virtual KernelLaunch swiglu(int64_t n) = 0;
  /// dy[n], gate[n], up[n] -> dgate[n], dup[n]; each in place on any of the
  /// three.
  virtual KernelLaunch swigluGrad(int64_t n) = 0;
  /// x[n], i32 random[5] -> result[n]; scalars i64 stream and then `addends`
  /// i64, the sum of which is the whole tensor's element that x begins with; in
  /// place. x is [local], a part of a tensor [whole], n elements in all.
  virtual KernelLaunch dropout(ArrayRef<int64_t> local, ArrayRef<int64_t> whole,
                               int64_t addends, double rate) = 0;

  // -- Layer normalisation, rows of n elements --------------------------------

  /// x[rows*n], gamma[n], beta[n] -> y[rows*n], mean[rows], rstd[rows]; y in
  /// place on x.
  virtual KernelLaunch layerNorm(int64_t rows, int64_t n, double epsilon) = 0;
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n],
  /// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; in place on dy, x and
  /// residual.
  virtual KernelLaunch layerNormGrad(int64_t rows, int64_t n,
                                     bool hasResidual) = 0;
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows] -> dgamma[n], dbeta[n].
  virtual KernelLaunch normParamGrad(int64_t rows, int64_t n) = 0;

  // -- Layer normalisation whose rows are sharded among ranks -----------------
  // `real` is the number of unpadded elements of the local row, 0 to n.

  /// x[rows*n] -> moments[rows*2], as (mean, M2); scalar i64 real.
  virtual KernelLaunch rowMoments(int64_t rows, int64_t n) = 0;
  /// moments[rows*2*counts.size()] -> mean[rows], rstd[rows].
  virtual KernelLaunch mergeMoments(int64_t rows, ArrayRef<int64_t> counts,
                                    double epsilon) = 0;
  /// x[rows*n], mean[rows], rstd[rows], gamma[n], beta[n] -> y[rows*n]; in
  /// place on x.
  virtual KernelLaunch normalize(int64_t rows, int64_t n) = 0;
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n] -> sums[rows*2].
  virtual KernelLaunch normGradSums(int64_t rows, int64_t n) = 0;
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n], sums[rows*2],
  /// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; scalar i64 real; in
  /// place on dy, x and residual. `size` is the true extent of the whole row.
  virtual KernelLaunch normGradApply(int64_t rows, int64_t n, int64_t size,
                                     bool hasResidual) = 0;

  // -- Normalisation by the root mean square, rows of n elements --------------
  // Padded elements of x, dy or gamma are zero, and so are those of results.

  /// x[rows*n], gamma[n] -> y[rows*n], rstd[rows]; y in place on x.
  virtual KernelLaunch rmsNorm(int64_t rows, int64_t n, double epsilon) = 0;
  /// dy[rows*n], x[rows*n], rstd[rows], gamma[n], (sums[rows] if `hasSums`),
  /// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; in place on dy, x and
  /// residual. `size` is the true extent of the whole row.
  virtual KernelLaunch rmsNormGrad(int64_t rows, int64_t n, int64_t size,
                                   bool hasSums, bool hasResidual) = 0;
  /// dy[rows*n], x[rows*n], rstd[rows] -> dgamma[n].
  virtual KernelLaunch rmsParamGrad(int64_t rows, int64_t n) = 0;
  /// a[rows*n], b[rows*n], (weight[n] if `hasWeight`) -> sums[rows].
  virtual KernelLaunch rowDot(int64_t rows, int64_t n, bool hasWeight) = 0;
  /// squares[rows] -> rstd[rows]; in place.
  virtual KernelLaunch rmsRstd(int64_t rows, int64_t size, double epsilon) = 0;
  /// x[rows*n], rstd[rows], gamma[n] -> y[rows*n]; in place on x.
  virtual KernelLaunch rmsScale(int64_t rows, int64_t n) = 0;

  // -- Position embedding -----------------------------------------------------

  /// x[batch*seq*heads*dim] -> result, the same; in place. Cosines and sines
  /// are a constant table of seq*dim elements, one for all kernels that need
  /// it.
  virtual KernelLaunch rotary(int64_t batch, int64_t seq, int64_t heads,
                              int64_t dim, double theta, bool inverse) = 0;

  // -- Embedding --------------------------------------------------------------
  // The table holds rows [first, first + rows) of the whole; tokens outside
  // look up zeros and receive nothing.

  /// table[rows*cols], i32 tokens[count] -> result[count*cols]; scalar i64
  /// first.
  virtual KernelLaunch embedding(int64_t count, int64_t rows, int64_t cols) = 0;
  /// dy[count*cols], i32 tokens[count] -> table[rows*cols]; scalar i64 first.
  /// Adds to what the table holds, or to zeros if `zero`; nothing where a token
  /// is `pad`.
  virtual KernelLaunch
  embeddingGrad(int64_t count, int64_t rows, int64_t cols, bool zero,
                std::optional<int64_t> pad = std::nullopt) = 0;

  /// i32 tokens[rows*cols], with `masked` i32 targets[rows*cols] -> i32
  /// result[rows]: one more than the last column below `real` whose token is
  /// not `pad` or whose target is not negative, 1 at least; scalar i64 real.
  virtual KernelLaunch lengths(int64_t rows, int64_t cols, int64_t pad,
                               bool masked = false) = 0;

  // -- Head and loss ----------------------------------------------------------
  // A chunk of logits [rows, cols]: columns [0, real) stand for vocabulary
  // entries [first, first + real), the others are padding.

  /// logits[rows*cols] -> max[rows], over the real columns, the lowest finite
  /// float where there is none; scalar i64 real.
  virtual KernelLaunch rowMax(int64_t rows, int64_t cols) = 0;
  /// logits[rows*cols] in and out, max[rows], i32 targets[rows] ->
  /// sums[rows*2]; scalars i64 first, i64 real. Replaces each logit x by
  /// exp(x - max), 0 at padding; sums are their total and x - max of the
  /// target, 0 where it is elsewhere.
  virtual KernelLaunch expSum(int64_t rows, int64_t cols) = 0;
  /// rowMax and expSum in one, the maximum kept private: logits[rows*cols] in
  /// and out, i32 targets[rows] -> sums[rows*2]; scalars i64 first, i64 real.
  /// With `withGrad` logitsGrad's work is done too, row by row while the row is
  /// in the cache: for large vocabularies a pass through memory less.
  virtual KernelLaunch softmaxSums(int64_t rows, int64_t cols,
                                   bool withGrad = false) = 0;
  /// sums[rows*2], i32 targets[rows] -> losses[rows]: log of the total minus
  /// the target's, 0 where the target is negative.
  virtual KernelLaunch tokenLoss(int64_t rows) = 0;
  /// exps[rows*cols] in and out, sums[rows*2], i32 targets[rows]; scalar i64
  /// first. Replaces e by e/total - onehot(target), 0 where the target is
  /// negative.
  virtual KernelLaunch logitsGrad(int64_t rows, int64_t cols) = 0;
  /// losses[n] -> sum[1], accumulated in f64.
  virtual KernelLaunch sumTokens(int64_t n) = 0;
  /// i32 targets[n] -> count[1], as f32: how many are at least 0.
  virtual KernelLaunch countReal(int64_t n) = 0;

  // -- Optimizer --------------------------------------------------------------

  /// The number of partial sums that sumSquares makes of n elements.
  virtual int64_t getNumPartials(int64_t n) const = 0;
  /// x[n] -> f64 partials[getNumPartials(n)].
  virtual KernelLaunch sumSquares(int64_t n) = 0;
  /// f64 partials[n] -> sum[1], rounded once.
  virtual KernelLaunch sumPartials(int64_t n) = 0;
  /// norm[1], count[1], limit[1] -> scale[1], mean_norm[1].
  virtual KernelLaunch clip() = 0;
  /// param[n], grad[n], exp_avg[n], exp_avg_sq[n], scale[1], lr[1],
  /// weight_decay[1], beta1[1], beta2[1], epsilon[1], beta1_power[1],
  /// beta2_power[1] -> new_param[n], new_exp_avg[n], new_exp_avg_sq[n]; in
  /// place on param, exp_avg and exp_avg_sq.
  virtual KernelLaunch adamw(int64_t n, bool decay) = 0;
  /// param[n], grad[n], momentum_buffer[n], scale[1], lr[1], weight_decay[1],
  /// momentum[1] -> new_param[n], new_momentum_buffer[n]; in place on param and
  /// momentum_buffer.
  virtual KernelLaunch sgd(int64_t n, bool decay) = 0;
  /// param[n], grad[n], exp_avg[n], exp_avg_sq[n], scale[1], weight_decay[1],
  /// beta1[1], beta2[1], epsilon[1], beta1_power[1], beta2_power[1] ->
  /// direction[n], new_exp_avg[n], new_exp_avg_sq[n]; in place on grad, exp_avg
  /// and exp_avg_sq.
  virtual KernelLaunch lambDirection(int64_t n, bool decay) = 0;
  /// param[n], direction[n], lr[1], (param_norm[1], direction_norm[1] if
  /// `hasNorms`) -> new_param[n]; in place on param and direction.
  virtual KernelLaunch lambUpdate(int64_t n, bool hasNorms) = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_KERNELLIBRARY_H
