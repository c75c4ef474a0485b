//===- Lemmas.cpp - What a proof takes for granted --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Lemmas.h"

using namespace mlir;
using namespace mlir::optimus;

ArrayRef<LemmaText> mlir::optimus::getLemmas() {
  using enum Lemma;
  static constexpr LemmaText lemmas[] = {
      {Collective, "collective",
       "all_gather, all_reduce, reduce_scatter and slice leave the whole value "
       "as it is"},
      {Reshard, "reshard", "reshard(x) = x"},
      {DistributedProduct, "distributed-product",
       "ccl.matmul of shards is optimus.matmul of the whole tensors"},
      {DistributedHead, "distributed-head",
       "ccl.head_loss and its gradient are those of optimus on whole tensors"},
      {FoldedEpilogue, "folded-epilogue",
       "what a product or a norm's gradient takes in is added, or multiplied "
       "with, after it: matmul bias(b) residual(r) scale(s) = (matmul + b + r) "
       "* s"},
      {Accumulation, "accumulation",
       "embedding_grad accumulate(t) = embedding_grad + t"},
      {SumRegrouped, "sum-regrouped",
       "the terms of nested sums may be added in any order"},
      {FactorsSwapped, "factors-swapped", "x * y = y * x"},
      {NeutralElement, "neutral-element",
       "x + 0 = x, x * 1 = x, and a sum over no dimension is its operand"},
      {CastBack, "cast-back",
       "a cast to the type that is there is nothing, nor is one to a wider "
       "type and back"},
      {NarrowedResult, "narrowed-result",
       "a product of a narrow type, or a head's gradient of h, is the one in "
       "f32, cast to it"},
      {MergedMoments, "merged-moments",
       "merge_moments of the moments of a row's shards are the mean and rstd "
       "of the row, where counts are the real elements of each shard"},
      {LayerNormParts, "layer-norm-parts",
       "layer_norm = normalize with the row's mean and rstd; layer_norm_grad = "
       "norm_grad_apply of norm_grad_sums over the whole row, and "
       "norm_param_grad"},
      {RmsNormParts, "rms-norm-parts",
       "rms_norm = rms_scale with rms_rstd of row_dot(x, x) over the whole "
       "row; "
       "rms_norm_grad takes row_dot(dy, x, gamma) over the whole row"},
      {NormOfSquares, "norm-of-squares",
       "global_norm = sqrt of the sum of each tensor's sum_squares"},
      {ValueBesideSlope, "value-beside-slope",
       "the first result of gelu_with_slope is gelu"},
      {LossBesideGradient, "loss-beside-gradient",
       "loss_sum and real_count of head_loss_grad are those of head_loss, and "
       "real_count depends on the targets alone"},
      {Chunks, "chunks", "head_loss is the same in chunks of any size"},
  };
  return lemmas;
}
