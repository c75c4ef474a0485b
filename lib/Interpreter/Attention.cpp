//===- Attention.cpp - Attention and position embedding ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/AttentionShape.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// The parts of one head of queries of one sequence: where each lies in its
/// operand, or in the gradient of it.
struct Head {
  using Shape = AttentionShape;

  Head(const Shape &shape, int64_t length, bool causal, int64_t batch,
       int64_t head)
      : shape(shape), length(length), causal(causal), batch(batch), head(head),
        scale(1 / std::sqrt(static_cast<double>(shape.headDim))) {}

  /// The first element of a position's q, k or v.
  int64_t at(int64_t position, Shape::Part part) const {
    int64_t headOfPart = part == Shape::Q ? head : head / shape.queriesPerGroup;
    return (batch * shape.sequence + position) * shape.getStride(part) +
           shape.getOffset(part) + headOfPart * shape.headDim;
  }
  /// The first element of a position in the result.
  int64_t atOut(int64_t position) const {
    return ((batch * shape.sequence + position) * shape.getNumHeads() + head) *
           shape.headDim;
  }
  int64_t atLse(int64_t position) const {
    return (batch * shape.getNumHeads() + head) * shape.sequence + position;
  }
  /// Position `row` sees positions [0, getNumSeen(row)).
  int64_t getNumSeen(int64_t row) const {
    return causal ? std::min(row + 1, length) : length;
  }

  double getScore(const Tensor &q, const Tensor &k, int64_t row,
                  int64_t col) const {
    double score = 0;
    for (int64_t i = 0; i < shape.headDim; ++i)
      score += q[at(row, Shape::Q) + i] * k[at(col, Shape::K) + i];
    return score * scale;
  }

  const Shape &shape;
  int64_t length; ///< tokens that are not padding
  bool causal;
  int64_t batch, head;
  double scale;
};

/// The operands of an attention, by part.
struct Parts {
  template <typename Op>
  Parts(Op op, Frame &frame) : shape(op.getInputs()) {
    auto get = [&](AttentionShape::Part part) {
      return &frame.get(op.getInputs()[shape.getOperand(part)]);
    };
    q = get(AttentionShape::Q);
    k = get(AttentionShape::K);
    v = get(AttentionShape::V);
    // What frames hold may be whole tensors, whatever the operand's type.
    shape.batch = q->shape[0];
    shape.sequence = q->shape[1];
    shape.groups = q->shape[shape.isPacked ? 3 : 2];
    if (shape.hasGroupDim)
      shape.queriesPerGroup = q->shape[3];
  }

  AttentionShape shape;
  const Tensor *q, *k, *v;
};

/// Calls fn(Head) for each head of queries of each sequence. Head dimensions
/// must be whole, and positions where padded ones would be seen.
template <typename Op, typename Fn>
LogicalResult forEachHead(Op op, Frame &frame, const AttentionShape &shape,
                          Fn &&fn) {
  for (Value input : op.getInputs()) {
    const Tensor &tensor = frame.get(input);
    int64_t last = tensor.shape.size() - 1;
    for (int64_t dim = 1; dim <= last; ++dim) {
      bool isWhole = (dim == 1 && !op.getCausal() && !op.getLengths()) ||
                     dim == last || (shape.isPacked && dim == 2);
      if (isWhole && frame.getExtent(input, dim).real != tensor.shape[dim])
        return frame.emitError() << "expected dimension " << dim
                                 << " of an operand without padding";
    }
  }
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    double length =
        op.getLengths() ? frame.get(op.getLengths())[batch] : shape.sequence;
    if (!(length >= 1 && length <= shape.sequence))
      return frame.emitError()
             << "expected lengths from 1 to " << shape.sequence << ", found "
             << length << " of sequence " << batch;
    for (int64_t head = 0; head < shape.getNumHeads(); ++head)
      fn(Head(shape, length, op.getCausal(), batch, head));
  }
  return success();
}

LogicalResult executeLocally(AttentionOp op, Frame &frame) {
  Parts parts(op, frame);
  Tensor &result = frame.result(op.getResult());
  Tensor &lse = frame.result(op.getLse());
  return forEachHead(op, frame, parts.shape, [&](Head head) {
    for (int64_t row = 0; row < head.shape.sequence; ++row) {
      std::vector<double> scores(head.getNumSeen(row));
      for (size_t col = 0; col < scores.size(); ++col)
        scores[col] = head.getScore(*parts.q, *parts.k, row, col);
      double max = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double score : scores)
        sum += std::exp(score - max);
      for (size_t col = 0; col < scores.size(); ++col)
        for (int64_t i = 0; i < head.shape.headDim; ++i)
          result[head.atOut(row) + i] +=
              std::exp(scores[col] - max) / sum *
              (*parts.v)[head.at(col, AttentionShape::V) + i];
      lse[head.atLse(row)] = max + std::log(sum);
    }
  });
}

LogicalResult executeLocally(AttentionGradOp op, Frame &frame) {
  Parts parts(op, frame);
  const Tensor &dout = frame.get(op.getDout());
  const Tensor &out = frame.get(op.getOut());
  const Tensor &lse = frame.get(op.getLse());
  auto getGradient = [&](AttentionShape::Part part) -> Tensor & {
    return frame.result(op.getDinputs()[parts.shape.getOperand(part)]);
  };
  Tensor &dq = getGradient(AttentionShape::Q);
  Tensor &dk = getGradient(AttentionShape::K);
  Tensor &dv = getGradient(AttentionShape::V);
  return forEachHead(op, frame, parts.shape, [&](Head head) {
    int64_t dim = head.shape.headDim;
    for (int64_t row = 0; row < head.shape.sequence; ++row) {
      int64_t outRow = head.atOut(row), q = head.at(row, AttentionShape::Q);
      // Σ over columns of p·dp, which is dout·out.
      double mean = 0;
      for (int64_t i = 0; i < dim; ++i)
        mean += dout[outRow + i] * out[outRow + i];
      for (int64_t col = 0; col < head.getNumSeen(row); ++col) {
        int64_t k = head.at(col, AttentionShape::K);
        int64_t v = head.at(col, AttentionShape::V);
        double p = std::exp(head.getScore(*parts.q, *parts.k, row, col) -
                            lse[head.atLse(row)]);
        double dp = 0;
        for (int64_t i = 0; i < dim; ++i)
          dp += dout[outRow + i] * (*parts.v)[v + i];
        double dscore = p * (dp - mean) * head.scale;
        for (int64_t i = 0; i < dim; ++i) {
          dq[q + i] += dscore * (*parts.k)[k + i];
          dk[k + i] += dscore * (*parts.q)[q + i];
          dv[v + i] += p * dout[outRow + i];
        }
      }
    }
  });
}

LogicalResult executeLocally(RotaryOp op, Frame &frame) {
  const Tensor &x = frame.get(op.getX());
  Tensor &result = frame.result(op.getResult());
  int64_t sequence = x.shape[1], dim = x.shape.back();
  // Positions beyond the sequence do no harm; pairs would be others.
  if (frame.getLastExtent(op.getX()).real != dim)
    return frame.emitError()
           << "expected the last dimension of x without padding";
  int64_t rowsAtPosition = x.getNumRows() / (x.shape[0] * sequence);
  int64_t channels = op.getChannels().value_or(dim), heads = rowsAtPosition;
  if (std::optional<int64_t> parts = op.getParts())
    heads = heads / x.shape[2] * *parts;
  double theta = op.getTheta().convertToDouble();
  for (int64_t element = 0; element < x.getNumElements(); ++element)
    result[element] = x[element];
  for (int64_t row = 0; row < x.getNumRows(); ++row)
    for (int64_t i = 0; i < channels / 2 && row % rowsAtPosition < heads; ++i) {
      int64_t position = row / rowsAtPosition % sequence;
      double angle = position * std::pow(theta, -2.0 * i / channels);
      if (op.getInverse())
        angle = -angle;
      int64_t low = row * dim + i, high = low + channels / 2;
      result[low] = std::cos(angle) * x[low] - std::sin(angle) * x[high];
      result[high] = std::cos(angle) * x[high] + std::sin(angle) * x[low];
    }
  return success();
}

} // namespace

void mlir::optimus::attachAttention(MLIRContext &context) {
  LocalModel<AttentionOp, executeLocally>::attach(context);
  LocalModel<AttentionGradOp, executeLocally>::attach(context);
  LocalModel<RotaryOp, executeLocally>::attach(context);
}
