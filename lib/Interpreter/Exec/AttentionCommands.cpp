//===- AttentionCommands.cpp - Attention and its gradient -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace mlir::exec;

namespace {

/// One head of queries of one sequence.
template <typename Op>
struct Head {
  mutable Op op; ///< asking it is not const
  int64_t batch, head, length;

  int64_t getSeq() const { return op.getSeq(); }
  int64_t getDim() const { return op.getHeadDim(); }
  /// Position `row` sees positions [0, getNumSeen(row)).
  int64_t getNumSeen(int64_t row) const {
    return op.getCausal() ? std::min(row + 1, length) : length;
  }
  int64_t atQ(int64_t position) const {
    return (batch * getSeq() + position) * int64_t(op.getQLd()) +
           head * getDim();
  }
  int64_t atKv(int64_t position) const {
    int64_t group = head / (op.getHeads() / op.getKvHeads());
    return (batch * getSeq() + position) * int64_t(op.getKvLd()) +
           group * getDim();
  }
  int64_t atOut(int64_t position) const {
    return ((batch * getSeq() + position) * int64_t(op.getHeads()) + head) *
           getDim();
  }
  int64_t atLse(int64_t position) const {
    return (batch * int64_t(op.getHeads()) + head) * getSeq() + position;
  }

  std::vector<double> read(const Operand &operand, int64_t first) const {
    std::vector<double> values;
    for (int64_t i = 0; i < getDim(); ++i)
      values.push_back(operand.read(first + i));
    return values;
  }
};

double dot(ArrayRef<double> a, ArrayRef<double> b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a, b))
    sum += x * y;
  return sum;
}

/// Calls `run(head)` for each head of queries of each sequence.
template <typename Op, typename Fn>
void forEachHead(Op op, Devices &devices, int64_t rank, Fn &&run) {
  std::optional<Operand> lengths =
      devices.getOperand(op.getLengthsMutable(), rank);
  for (int64_t batch = 0; batch < int64_t(op.getBatch()); ++batch) {
    int64_t seq = op.getSeq();
    int64_t length = lengths ? int64_t(lengths->read(batch)) : seq;
    length = std::clamp<int64_t>(length, 1, seq);
    for (int64_t head = 0; head < int64_t(op.getHeads()); ++head)
      run(Head<Op>{op, batch, head, length});
  }
}

template <typename Op>
double getScale(Op op) {
  return 1 / std::sqrt(static_cast<double>(op.getHeadDim()));
}

LogicalResult executeCommand(AttentionOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    Operand q = devices.getOperand(op.getQMutable(), rank);
    Operand k = devices.getOperand(op.getKMutable(), rank);
    Operand v = devices.getOperand(op.getVMutable(), rank);
    Operand out = devices.getOperand(op.getOutMutable(), rank);
    Operand lse = devices.getOperand(op.getLseMutable(), rank);
    forEachHead(op, devices, rank, [&](auto head) {
      for (int64_t row = 0; row < head.getSeq(); ++row) {
        std::vector<double> query = head.read(q, head.atQ(row)), scores;
        for (int64_t col = 0; col < head.getNumSeen(row); ++col)
          scores.push_back(dot(query, head.read(k, head.atKv(col))) *
                           getScale(op));
        double max = *llvm::max_element(scores), sum = 0;
        for (double score : scores)
          sum += std::exp(score - max);
        std::vector<double> result(head.getDim(), 0);
        for (auto [col, score] : llvm::enumerate(scores))
          for (auto [to, value] :
               llvm::zip_equal(result, head.read(v, head.atKv(col))))
            to += std::exp(score - max) / sum * value;
        for (int64_t i = 0; i < head.getDim(); ++i)
          out.write(head.atOut(row) + i, result[i]);
        lse.write(head.atLse(row), max + std::log(sum));
      }
    });
  });
}

LogicalResult executeCommand(AttentionGradOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    auto get = [&](OpOperand &operand) {
      return devices.getOperand(operand, rank);
    };
    Operand dout = get(op.getDoutMutable()), q = get(op.getQMutable()),
            k = get(op.getKMutable()), v = get(op.getVMutable()),
            out = get(op.getOutMutable()), lse = get(op.getLseMutable());
    // Heads share keys and values, so gradients are summed before they are
    // stored.
    std::map<int64_t, double> dq, dk, dv;
    auto add = [](std::map<int64_t, double> &to, int64_t first, double scale,
                  ArrayRef<double> values) {
      for (auto [i, value] : llvm::enumerate(values))
        to[first + i] += scale * value;
    };
    forEachHead(op, devices, rank, [&](auto head) {
      std::vector<double> zeros(head.getDim(), 0);
      for (int64_t row = 0; row < head.getSeq(); ++row) {
        // What no position sees has the gradient zero.
        add(dk, head.atKv(row), 0, zeros);
        add(dv, head.atKv(row), 0, zeros);
        std::vector<double> query = head.read(q, head.atQ(row)),
                            dresult = head.read(dout, head.atOut(row));
        // Σ over columns of p·dp, which is dout·out.
        double mean = dot(dresult, head.read(out, head.atOut(row)));
        double sum = lse.read(head.atLse(row));
        for (int64_t col = 0; col < head.getNumSeen(row); ++col) {
          int64_t at = head.atKv(col);
          std::vector<double> key = head.read(k, at);
          double p = std::exp(dot(query, key) * getScale(op) - sum);
          double dp = dot(dresult, head.read(v, at));
          double dscore = p * (dp - mean) * getScale(op);
          add(dq, head.atQ(row), dscore, key);
          add(dk, at, dscore, query);
          add(dv, at, p, dresult);
        }
      }
    });
    auto store = [&](OpOperand &operand,
                     const std::map<int64_t, double> &values) {
      Operand to = get(operand);
      for (auto [element, value] : values)
        to.write(element, value);
    };
    store(op.getDqMutable(), dq);
    store(op.getDkMutable(), dk);
    store(op.getDvMutable(), dv);
  });
}

} // namespace

void mlir::exec::attachAttentionCommands(MLIRContext &context) {
  CommandModel<AttentionOp, executeCommand>::attach(context);
  CommandModel<AttentionGradOp, executeCommand>::attach(context);
}
