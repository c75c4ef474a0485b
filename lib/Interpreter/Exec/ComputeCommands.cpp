//===- ComputeCommands.cpp - Products, packing and copies -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include "optimus/Dialect/Exec/IR/WeightBlocks.h"

#include <cstring>

using namespace mlir;
using namespace mlir::exec;

namespace {

void applyEpilogue(GemmOp op, Devices &devices, int64_t rank,
                   std::vector<double> &c) {
  auto operand = devices.getOperand(op.getExtraMutable(), rank);
  if (!operand)
    return;
  std::vector<double> extra =
      operand->readMatrix(op.getM(), op.getN(), op.getLdExtra());
  for (auto [value, other] : llvm::zip_equal(c, extra))
    value = op.getEpilogue() == Epilogue::Add ? value + other : value * other;
}

/// B [k,n] of blocks of few bits.
std::vector<double> readBlocks(GemmOp op, const Operand &b) {
  const int64_t k = op.getK(), n = op.getN();
  std::vector<int32_t> words;
  for (double word : b.readMatrix(1, b.getExtent(), b.getExtent()))
    words.push_back(static_cast<int32_t>(word));
  std::vector<double> elements(k * n);
  std::vector<float> column(k);
  for (int64_t col = 0; col < n; ++col) {
    optimus_support::readBlocks(getBlockLayout(op.getBlocks(), k, n),
                                words.data(), col, 0, k, column.data());
    for (int64_t row = 0; row < k; ++row)
      elements[row * n + col] = column[row];
  }
  return elements;
}

/// Products are summed in f64 and rounded when they are stored: their order is
/// the device's own.
LogicalResult executeCommand(GemmOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    int64_t m = op.getM(), n = op.getN(), k = op.getK();
    std::vector<double> a = devices.getOperand(op.getAMutable(), rank)
                                .readMatrix(m, k, op.getLda(), op.getTransA());
    // What is packed lies as exec.pack leaves it.
    Operand from = devices.getOperand(op.getBMutable(), rank);
    std::vector<double> b =
        op.getBlocks() != Blocks::None
            ? readBlocks(op, from)
            : from.readMatrix(k, n, op.getPackedB() ? n : op.getLdb(),
                              op.getTransB());
    Operand to = devices.getOperand(op.getCMutable(), rank);
    std::vector<double> c(m * n, 0);
    if (op.getAccumulate())
      c = to.readMatrix(m, n, op.getLdc());
    std::vector<double> bias(n, 0);
    auto given = devices.getOperand(op.getBiasMutable(), rank);
    const bool isGradient = op.getEpilogue() == Epilogue::BiasGrad;
    if (given && !isGradient)
      bias = given->readMatrix(1, n, n);
    for (int64_t row = 0; row < m; ++row)
      for (int64_t col = 0; col < n; ++col) {
        double sum = bias[col];
        for (int64_t i = 0; i < k; ++i)
          sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] += sum;
      }
    applyEpilogue(op, devices, rank, c);
    to.writeMatrix(m, n, op.getLdc(), c);
    if (!isGradient)
      return;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t col = 0; col < n; ++col)
        bias[col] += b[i * n + col];
    given->writeMatrix(1, n, n, bias);
  });
}

/// The words of op(src) in blocks of few bits.
std::vector<double> makeBlocks(PackOp op, ArrayRef<double> elements,
                               int64_t numWords) {
  const int64_t rows = op.getRows(), cols = op.getCols();
  const std::vector<float> source(elements.begin(), elements.end());
  std::vector<int32_t> words(numWords);
  optimus_support::writeBlocks(getBlockLayout(op.getBlocks(), rows, cols),
                               source.data(), /*rowStride=*/cols,
                               /*colStride=*/1, 0, cols, words.data());
  return {words.begin(), words.end()};
}

/// Our own layout is op(src), rows one after the other, and zeros behind.
LogicalResult executeCommand(PackOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    Operand dst = devices.getOperand(op.getDstMutable(), rank);
    std::vector<double> packed =
        devices.getOperand(op.getSrcMutable(), rank)
            .readMatrix(op.getRows(), op.getCols(), op.getLd(), op.getTrans());
    if (op.getBlocks() != Blocks::None)
      packed = makeBlocks(op, packed, dst.getExtent());
    packed.resize(dst.getExtent(), 0);
    dst.writeMatrix(1, packed.size(), packed.size(), packed);
  });
}

LogicalResult executeCommand(CopyOp op, Devices &devices) {
  return forEachRank(devices, [&](int64_t rank) {
    int64_t rows = op.getRows(), cols = op.getCols();
    std::vector<double> values(rows * cols, 0);
    if (auto src = devices.getOperand(op.getSrcMutable(), rank))
      values = src->readMatrix(rows, cols, op.getSrcLd());
    devices.getOperand(op.getDstMutable(), rank)
        .writeMatrix(rows, cols, op.getDstLd(), values);
  });
}

} // namespace

void mlir::exec::attachComputeCommands(MLIRContext &context) {
  CommandModel<GemmOp, executeCommand>::attach(context);
  CommandModel<PackOp, executeCommand>::attach(context);
  CommandModel<CopyOp, executeCommand>::attach(context);
}
