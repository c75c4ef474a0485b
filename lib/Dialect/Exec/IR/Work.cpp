//===- Work.cpp - What commands compute -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "optimus-support/SeenKeys.h"

using namespace mlir;
using namespace mlir::exec;
using optimus::Work;
using optimus_support::windowShare;

Work GemmOp::getWork() {
  Work work{.kind = Work::Product,
            .m = static_cast<int64_t>(getM()),
            .n = static_cast<int64_t>(getN()),
            .k = static_cast<int64_t>(getK()),
            .transA = getTransA(),
            .transB = getTransB(),
            .bias = getBias() != nullptr};
  std::optional<int64_t> ldb;
  if (!getPackedB())
    ldb = static_cast<int64_t>(getLdb());
  work.findGaps(static_cast<int64_t>(getLda()), ldb,
                static_cast<int64_t>(getLdc()));
  return work;
}

Work PackOp::getWork() {
  return {.kind = Work::Packing,
          .n = static_cast<int64_t>(getCols()),
          .k = static_cast<int64_t>(getRows()),
          .transB = getTrans()};
}

template <typename Op>
static int64_t getWindow(Op op) {
  return op.getWindow().value_or(0);
}

/// Half of each product is left out with the causal mask, and more in a window.
template <typename Op>
static Work getAttentionWork(Op op, int products, bool isGradient) {
  double all = 2.0 * products * op.getBatch() * op.getHeads() * op.getSeq() *
               op.getSeq() * op.getHeadDim();
  return {.kind = Work::Attention,
          .flops = op.getCausal()
                       ? all / 2 * windowShare(op.getSeq(), getWindow(op))
                       : all,
          .seq = static_cast<int64_t>(op.getSeq()),
          .headDim = static_cast<int64_t>(op.getHeadDim()),
          .causal = op.getCausal(),
          .gradient = isGradient};
}

Work AttentionOp::getWork() {
  Work work = getAttentionWork(*this, /*products=*/2, /*isGradient=*/false);
  // How much of a cache is filled is not known.
  if (std::optional<uint64_t> capacity = getCapacity())
    work.flops =
        4.0 * getBatch() * getHeads() * getSeq() * *capacity * getHeadDim();
  return work;
}
Work AttentionGradOp::getWork() {
  return getAttentionWork(*this, /*products=*/5, /*isGradient=*/true);
}
