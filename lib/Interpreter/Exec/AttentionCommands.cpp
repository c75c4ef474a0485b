//===- AttentionCommands.cpp - Attention and its gradient -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Interpreter/DenseAttention.h"

#include "optimus-support/CachePages.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::kPageTokens;

namespace {

/// Reads the operands of an attention and writes its results, part by part, a
/// token's heads side by side.
template <typename Op>
class Parts {
public:
  Parts(Op op, Devices &devices, int64_t rank)
      : op(op), devices(devices), rank(rank), cached(getAttentionKeys(op)),
        dense{.batch = int64_t(op.getBatch()),
              .seq = int64_t(op.getSeq()),
              .heads = int64_t(op.getHeads()),
              .kvHeads = int64_t(op.getKvHeads()),
              .headDim = int64_t(op.getHeadDim()),
              .causal = op.getCausal(),
              .window = int64_t(op.getWindow().value_or(0)),
              .capacity = cached.capacity,
              .q = readQueries(op.getQMutable()),
              .k = readKeys(op.getKMutable()),
              .v = readKeys(op.getVMutable()),
              .lengths = readIntegers(op.getLengthsMutable(), op.getBatch()),
              .positions =
                  readIntegers(op.getPositionsMutable(), getTokens())} {
    // As devices do.
    for (int64_t &length : dense.lengths)
      length = std::clamp<int64_t>(length, dense.capacity == 0 ? 1 : 0,
                                   dense.getNumKeys());
  }

  /// Puts keys and values of a pool's pages in the order of positions.
  void gatherPages(MutableOperandRange table) {
    const int64_t pages = dense.capacity / kPageTokens;
    const int64_t ofEach = cached.pool / dense.batch;
    const std::vector<int64_t> entries =
        readIntegers(table, dense.batch * pages);
    for (std::vector<double> *rows : {&dense.k, &dense.v}) {
      std::vector<double> found;
      for (auto [number, entry] : llvm::enumerate(entries)) {
        // As devices do.
        const int64_t page = std::clamp<int64_t>(
            int64_t(number) / pages * ofEach + entry, 0, cached.pool - 1);
        const int64_t size = kPageTokens * getKvWidth();
        found.insert(found.end(), rows->begin() + page * size,
                     rows->begin() + (page + 1) * size);
      }
      *rows = std::move(found);
    }
  }

  std::vector<double> readQueries(OpOperand &operand) {
    return read(operand, getWidth(), op.getQLd());
  }
  std::vector<double> readKeys(OpOperand &operand) {
    return read(operand, getKvWidth(), op.getKvLd(), getNumKeys());
  }
  /// Of results.
  std::vector<double> readRows(OpOperand &operand) {
    return read(operand, getWidth(), getWidth());
  }
  void writeQueries(OpOperand &operand, ArrayRef<double> values) {
    write(operand, getWidth(), op.getQLd(), values);
  }
  void writeKeys(OpOperand &operand, ArrayRef<double> values) {
    write(operand, getKvWidth(), op.getKvLd(), values);
  }
  void writeRows(OpOperand &operand, ArrayRef<double> values) {
    write(operand, getWidth(), getWidth(), values);
  }
  /// One number for each query of each head.
  std::vector<double> readSums(OpOperand &operand) {
    return read(operand, op.getHeads(), op.getHeads());
  }
  void writeSums(OpOperand &operand, ArrayRef<double> values) {
    write(operand, op.getHeads(), op.getHeads(), values);
  }

private:
  int64_t getTokens() { return op.getBatch() * op.getSeq(); }
  int64_t getWidth() { return op.getHeads() * op.getHeadDim(); }
  int64_t getKvWidth() { return op.getKvHeads() * op.getHeadDim(); }
  int64_t getNumKeys() {
    // Of sizes that the verifier has checked.
    return *optimus_support::attentionKeys(op.getBatch(), op.getSeq(),
                                           cached.capacity, cached.pool)
                .get();
  }
  std::vector<double> read(OpOperand &operand, int64_t width, int64_t ld) {
    return read(operand, width, ld, getTokens());
  }
  std::vector<double> read(OpOperand &operand, int64_t width, int64_t ld,
                           int64_t rows) {
    return devices.getOperand(operand, rank).readMatrix(rows, width, ld);
  }
  void write(OpOperand &operand, int64_t width, int64_t ld,
             ArrayRef<double> values) {
    devices.getOperand(operand, rank)
        .writeMatrix(getTokens(), width, ld, values);
  }
  std::vector<int64_t> readIntegers(MutableOperandRange range, int64_t count) {
    std::optional<Operand> operand = devices.getOperand(range, rank);
    if (!operand)
      return {};
    std::vector<double> values = operand->readMatrix(1, count, count);
    return {values.begin(), values.end()};
  }

  Op op;
  Devices &devices;
  int64_t rank;
  AttentionKeys cached;

public:
  optimus::DenseAttention dense;
};

LogicalResult executeCommand(AttentionOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    Parts parts(op, devices, rank);
    if (op.getPool())
      parts.gatherPages(op.getPagesMutable());
    optimus::DenseAttention::Result result = parts.dense.attend();
    parts.writeRows(op.getOutMutable(), result.out);
    parts.writeSums(op.getLseMutable(), result.lse);
  });
}

LogicalResult executeCommand(AttentionGradOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    Parts parts(op, devices, rank);
    optimus::DenseAttention::Gradients gradients =
        parts.dense.differentiate(parts.readRows(op.getDoutMutable()),
                                  {parts.readRows(op.getOutMutable()),
                                   parts.readSums(op.getLseMutable())});
    parts.writeQueries(op.getDqMutable(), gradients.dq);
    parts.writeKeys(op.getDkMutable(), gradients.dk);
    parts.writeKeys(op.getDvMutable(), gradients.dv);
  });
}

} // namespace

void mlir::exec::attachAttentionCommands(MLIRContext &context) {
  CommandModel<AttentionOp, executeCommand>::attach(context);
  CommandModel<AttentionGradOp, executeCommand>::attach(context);
}
