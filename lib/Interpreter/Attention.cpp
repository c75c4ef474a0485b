//===- Attention.cpp - Multi-head attention and its gradient ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// One head of one sequence of qkv [batch, seq, 3, heads, dim].
struct Head {
  enum Part { Q = 0, K = 1, V = 2 };

  Head(const Tensor &qkv, bool causal, int64_t batch, int64_t head)
      : seq(qkv.shape[1]), heads(qkv.shape[3]), dim(qkv.shape[4]),
        causal(causal), batch(batch), head(head),
        scale(1 / std::sqrt(static_cast<double>(dim))) {}

  /// The first element of a position's q, k or v, in qkv and dqkv.
  int64_t at(int64_t position, Part part) const {
    return (((batch * seq + position) * 3 + part) * heads + head) * dim;
  }
  /// The first element of a position in a tensor [batch, seq, heads, dim].
  int64_t atOut(int64_t position) const {
    return ((batch * seq + position) * heads + head) * dim;
  }
  int64_t atLse(int64_t position) const {
    return (batch * heads + head) * seq + position;
  }
  /// Position `row` sees positions [0, getNumSeen(row)).
  int64_t getNumSeen(int64_t row) const { return causal ? row + 1 : seq; }

  double getScore(const Tensor &qkv, int64_t row, int64_t col) const {
    double score = 0;
    for (int64_t i = 0; i < dim; ++i)
      score += qkv[at(row, Q) + i] * qkv[at(col, K) + i];
    return score * scale;
  }

  int64_t seq, heads, dim;
  bool causal;
  int64_t batch, head;
  double scale;
};

/// Calls fn(Head) for each head of each sequence. Positions and head
/// dimensions must be whole.
template <typename Fn>
LogicalResult forEachHead(Frame &frame, Value qkv, bool causal, Fn &&fn) {
  const Tensor &tensor = frame.get(qkv);
  for (int64_t dim : {1, 2, 4})
    if (frame.getExtent(qkv, dim).real != tensor.shape[dim])
      return frame.emitError()
             << "expected dimension " << dim << " of qkv without padding";
  for (int64_t batch = 0; batch < tensor.shape[0]; ++batch)
    for (int64_t head = 0; head < tensor.shape[3]; ++head)
      fn(Head(tensor, causal, batch, head));
  return success();
}

struct AttentionModel : LocalModel<AttentionModel, AttentionOp> {
  static LogicalResult run(AttentionOp op, Frame &frame) {
    const Tensor &qkv = frame.get(op.getQkv());
    Tensor &result = frame.result(op.getResult());
    Tensor &lse = frame.result(op.getLse());
    return forEachHead(frame, op.getQkv(), op.getCausal(), [&](Head head) {
      for (int64_t row = 0; row < head.seq; ++row) {
        std::vector<double> scores(head.getNumSeen(row));
        for (size_t col = 0; col < scores.size(); ++col)
          scores[col] = head.getScore(qkv, row, col);
        double max = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double score : scores)
          sum += std::exp(score - max);
        for (size_t col = 0; col < scores.size(); ++col)
          for (int64_t i = 0; i < head.dim; ++i)
            result[head.atOut(row) + i] += std::exp(scores[col] - max) / sum *
                                           qkv[head.at(col, Head::V) + i];
        lse[head.atLse(row)] = max + std::log(sum);
      }
    });
  }
};

struct AttentionGradModel : LocalModel<AttentionGradModel, AttentionGradOp> {
  static LogicalResult run(AttentionGradOp op, Frame &frame) {
    const Tensor &qkv = frame.get(op.getQkv());
    const Tensor &dout = frame.get(op.getDout());
    const Tensor &out = frame.get(op.getOut());
    const Tensor &lse = frame.get(op.getLse());
    Tensor &dqkv = frame.result(op.getDqkv());
    return forEachHead(frame, op.getQkv(), op.getCausal(), [&](Head head) {
      for (int64_t row = 0; row < head.seq; ++row) {
        int64_t outRow = head.atOut(row), q = head.at(row, Head::Q);
        // Σ over columns of p·dp, which is dout·out.
        double mean = 0;
        for (int64_t i = 0; i < head.dim; ++i)
          mean += dout[outRow + i] * out[outRow + i];
        for (int64_t col = 0; col < head.getNumSeen(row); ++col) {
          int64_t k = head.at(col, Head::K), v = head.at(col, Head::V);
          double p =
              std::exp(head.getScore(qkv, row, col) - lse[head.atLse(row)]);
          double dp = 0;
          for (int64_t i = 0; i < head.dim; ++i)
            dp += dout[outRow + i] * qkv[v + i];
          double dscore = p * (dp - mean) * head.scale;
          for (int64_t i = 0; i < head.dim; ++i) {
            dqkv[q + i] += dscore * qkv[k + i];
            dqkv[k + i] += dscore * qkv[q + i];
            dqkv[v + i] += p * dout[outRow + i];
          }
        }
      }
    });
  }
};

} // namespace

void mlir::optimus::attachAttention(MLIRContext &context) {
  AttentionOp::attachInterface<AttentionModel>(context);
  AttentionGradOp::attachInterface<AttentionGradModel>(context);
}
