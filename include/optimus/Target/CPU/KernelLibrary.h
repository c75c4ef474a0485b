//===- KernelLibrary.h - Compute kernels, built on demand -------*- C++ -*-===//
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

#ifndef OPTIMUS_TARGET_CPU_KERNELLIBRARY_H
#define OPTIMUS_TARGET_CPU_KERNELLIBRARY_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::optimus {

/// A kernel and its iteration space.
struct KernelLaunch {
  FlatSymbolRefAttr kernel;
  int64_t extent; ///< iterations [0, extent)
  int64_t grain;  ///< least number of iterations worth a task
};

class KernelBuilder;

class KernelLibrary {
public:
  /// The attribute that marks a function as a kernel.
  static constexpr StringLiteral kKernelAttr = exec::ExecDialect::kKernel;

  /// Kernels go to the end of `module`, which must outlive the library. The
  /// func, scf, arith, math, memref and vector dialects must be loaded.
  explicit KernelLibrary(ModuleOp module);

  /// Loads the dialects that kernels are made of.
  static void getDependentDialects(DialectRegistry &registry);

  // -- Elementwise ----------------------------------------------------------

  /// lhs[rows*cols], rhs[cols] -> result[rows*cols]; in place on lhs, and on
  /// rhs if rows is 1.
  KernelLaunch add(int64_t rows, int64_t cols);
  KernelLaunch mul(int64_t rows, int64_t cols);
  /// x[rows*cols] -> result[cols], the sums of the columns.
  KernelLaunch sumLeading(int64_t rows, int64_t cols);
  /// x[n] -> result[n]; in place. The tanh form, or with erf if `exact`.
  KernelLaunch gelu(int64_t n, bool exact = false);
  /// x[n] -> result[n], slope[n]; in place on either.
  KernelLaunch geluWithSlope(int64_t n, bool exact = false);
  /// x[n] -> result[n]; in place.
  KernelLaunch sqrt(int64_t n);
  /// gate[n], up[n] -> result[n]; in place on either.
  KernelLaunch swiglu(int64_t n);
  /// dy[n], gate[n], up[n] -> dgate[n], dup[n]; each in place on any of the
  /// three.
  KernelLaunch swigluGrad(int64_t n);
  /// x[n], i32 random[5] -> result[n]; scalars i64 stream and then `addends`
  /// i64, the sum of which is the whole tensor's element that x begins with; in
  /// place. x is [local], a part of a tensor [whole], n elements in all.
  KernelLaunch dropout(ArrayRef<int64_t> local, ArrayRef<int64_t> whole,
                       int64_t addends, double rate);

  // -- Layer normalisation, rows of n elements --------------------------------

  /// x[rows*n], gamma[n], beta[n] -> y[rows*n], mean[rows], rstd[rows]; y in
  /// place on x.
  KernelLaunch layerNorm(int64_t rows, int64_t n, double epsilon);
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n],
  /// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; in place on dy, x and
  /// residual.
  KernelLaunch layerNormGrad(int64_t rows, int64_t n, bool hasResidual);
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows] -> dgamma[n], dbeta[n].
  KernelLaunch normParamGrad(int64_t rows, int64_t n);

  // -- Layer normalisation whose rows are sharded among ranks
  // --------------------- `real` is the number of unpadded elements of the
  // local row, 0 to n.

  /// x[rows*n] -> moments[rows*2], as (mean, M2); scalar i64 real.
  KernelLaunch rowMoments(int64_t rows, int64_t n);
  /// moments[rows*2*counts.size()] -> mean[rows], rstd[rows].
  KernelLaunch mergeMoments(int64_t rows, ArrayRef<int64_t> counts,
                            double epsilon);
  /// x[rows*n], mean[rows], rstd[rows], gamma[n], beta[n] -> y[rows*n]; in
  /// place on x.
  KernelLaunch normalize(int64_t rows, int64_t n);
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n] -> sums[rows*2].
  KernelLaunch normGradSums(int64_t rows, int64_t n);
  /// dy[rows*n], x[rows*n], mean[rows], rstd[rows], gamma[n], sums[rows*2],
  /// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; scalar i64 real; in
  /// place on dy, x and residual. `size` is the true extent of the whole row.
  KernelLaunch normGradApply(int64_t rows, int64_t n, int64_t size,
                             bool hasResidual);

  // -- Normalisation by the root mean square, rows of n elements --------------
  // Padded elements of x, dy or gamma are zero, and so are those of results.

  /// x[rows*n], gamma[n] -> y[rows*n], rstd[rows]; y in place on x.
  KernelLaunch rmsNorm(int64_t rows, int64_t n, double epsilon);
  /// dy[rows*n], x[rows*n], rstd[rows], gamma[n], (sums[rows] if `hasSums`),
  /// (residual[rows*n] if `hasResidual`) -> dx[rows*n]; in place on dy, x and
  /// residual. `size` is the true extent of the whole row.
  KernelLaunch rmsNormGrad(int64_t rows, int64_t n, int64_t size, bool hasSums,
                           bool hasResidual);
  /// dy[rows*n], x[rows*n], rstd[rows] -> dgamma[n].
  KernelLaunch rmsParamGrad(int64_t rows, int64_t n);
  /// a[rows*n], b[rows*n], (weight[n] if `hasWeight`) -> sums[rows].
  KernelLaunch rowDot(int64_t rows, int64_t n, bool hasWeight);
  /// squares[rows] -> rstd[rows]; in place.
  KernelLaunch rmsRstd(int64_t rows, int64_t size, double epsilon);
  /// x[rows*n], rstd[rows], gamma[n] -> y[rows*n]; in place on x.
  KernelLaunch rmsScale(int64_t rows, int64_t n);

  // -- Position embedding -----------------------------------------------------

  /// x[batch*seq*heads*dim] -> result, the same; in place. Cosines and sines
  /// are a constant table of seq*dim elements, one for all kernels that need
  /// it.
  KernelLaunch rotary(int64_t batch, int64_t seq, int64_t heads, int64_t dim,
                      double theta, bool inverse);

  // -- Embedding --------------------------------------------------------------
  // The table holds rows [first, first + rows) of the whole; tokens outside
  // look up zeros and receive nothing.

  /// table[rows*cols], i32 tokens[count] -> result[count*cols]; scalar i64
  /// first.
  KernelLaunch embedding(int64_t count, int64_t rows, int64_t cols);
  /// dy[count*cols], i32 tokens[count] -> table[rows*cols]; scalar i64 first.
  /// Adds to what the table holds, or to zeros if `zero`; nothing where a token
  /// is `pad`.
  KernelLaunch embeddingGrad(int64_t count, int64_t rows, int64_t cols,
                             bool zero,
                             std::optional<int64_t> pad = std::nullopt);

  /// i32 tokens[rows*cols], with `masked` i32 targets[rows*cols] -> i32
  /// result[rows]: one more than the last column below `real` whose token is
  /// not `pad` or whose target is not negative, 1 at least; scalar i64 real.
  KernelLaunch lengths(int64_t rows, int64_t cols, int64_t pad,
                       bool masked = false);

  // -- Head and loss ----------------------------------------------------------
  // A chunk of logits [rows, cols]: columns [0, real) stand for vocabulary
  // entries [first, first + real), the others are padding.

  /// logits[rows*cols] -> max[rows], over the real columns, the lowest finite
  /// float where there is none; scalar i64 real.
  KernelLaunch rowMax(int64_t rows, int64_t cols);
  /// logits[rows*cols] in and out, max[rows], i32 targets[rows] ->
  /// sums[rows*2]; scalars i64 first, i64 real. Replaces each logit x by
  /// exp(x - max), 0 at padding; sums are their total and x - max of the
  /// target, 0 where it is elsewhere.
  KernelLaunch expSum(int64_t rows, int64_t cols);
  /// rowMax and expSum in one, the maximum kept private: logits[rows*cols] in
  /// and out, i32 targets[rows] -> sums[rows*2]; scalars i64 first, i64 real.
  /// With `withGrad` logitsGrad's work is done too, row by row while the row is
  /// in the cache: for large vocabularies a pass through memory less.
  KernelLaunch softmaxSums(int64_t rows, int64_t cols, bool withGrad = false);
  /// sums[rows*2], i32 targets[rows] -> losses[rows]: log of the total minus
  /// the target's, 0 where the target is negative.
  KernelLaunch tokenLoss(int64_t rows);
  /// exps[rows*cols] in and out, sums[rows*2], i32 targets[rows]; scalar i64
  /// first. Replaces e by e/total - onehot(target), 0 where the target is
  /// negative.
  KernelLaunch logitsGrad(int64_t rows, int64_t cols);
  /// losses[n] -> sum[1], accumulated in f64.
  KernelLaunch sumTokens(int64_t n);
  /// i32 targets[n] -> count[1], as f32: how many are at least 0.
  KernelLaunch countReal(int64_t n);

  // -- Optimizer --------------------------------------------------------------

  /// The number of partial sums that sumSquares makes of n elements.
  static int64_t getNumPartials(int64_t n);
  /// x[n] -> f64 partials[getNumPartials(n)].
  KernelLaunch sumSquares(int64_t n);
  /// f64 partials[n] -> sum[1], rounded once.
  KernelLaunch sumPartials(int64_t n);
  /// norm[1], count[1], limit[1] -> scale[1], mean_norm[1].
  KernelLaunch clip();
  /// param[n], grad[n], exp_avg[n], exp_avg_sq[n], scale[1], lr[1],
  /// weight_decay[1], beta1[1], beta2[1], epsilon[1], beta1_power[1],
  /// beta2_power[1] -> new_param[n], new_exp_avg[n], new_exp_avg_sq[n]; in
  /// place on param, exp_avg and exp_avg_sq.
  KernelLaunch adamw(int64_t n, bool decay);
  /// param[n], grad[n], momentum_buffer[n], scale[1], lr[1], weight_decay[1],
  /// momentum[1] -> new_param[n], new_momentum_buffer[n]; in place on param and
  /// momentum_buffer.
  KernelLaunch sgd(int64_t n, bool decay);
  /// param[n], grad[n], exp_avg[n], exp_avg_sq[n], scale[1], weight_decay[1],
  /// beta1[1], beta2[1], epsilon[1], beta1_power[1], beta2_power[1] ->
  /// direction[n], new_exp_avg[n], new_exp_avg_sq[n]; in place on grad, exp_avg
  /// and exp_avg_sq.
  KernelLaunch lambDirection(int64_t n, bool decay);
  /// param[n], direction[n], lr[1], (param_norm[1], direction_norm[1] if
  /// `hasNorms`) -> new_param[n]; in place on param and direction.
  KernelLaunch lambUpdate(int64_t n, bool hasNorms);

private:
  /// The kernel `name`, built by `body` if it is new.
  FlatSymbolRefAttr getOrBuild(StringRef name, ArrayRef<Type> operands,
                               llvm::function_ref<void(KernelBuilder &)> body);
  KernelLaunch broadcast(StringRef kind, int64_t rows, int64_t cols);
  /// The name of the table of `rotary`: for each position, dim/2 cosines and
  /// then dim/2 sines. Made on first use.
  std::string getRotaryTable(int64_t seq, int64_t dim, double theta);

  ModuleOp module;
  llvm::StringSet<> known;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_KERNELLIBRARY_H
