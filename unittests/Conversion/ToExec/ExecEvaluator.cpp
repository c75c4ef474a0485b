//===- ExecEvaluator.cpp - Computes device programs -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExecEvaluator.h"

#include <limits>

using namespace mlir;
using namespace mlir::exec;

ExecEvaluator::ExecEvaluator(func::FuncOp function)
    : function(function), mesh(optimus::getMesh(function)) {
  for (BlockArgument argument : function.getArguments())
    allocate(argument);
}

void ExecEvaluator::allocate(Value buffer) {
  int64_t extent = cast<MemRefType>(buffer.getType()).getNumElements();
  memory[buffer].assign(
      getNumRanks(),
      std::vector<double>(extent, std::numeric_limits<double>::quiet_NaN()));
}

int64_t ExecEvaluator::getCoordinate(int64_t rank, StringRef axis) {
  SmallVector<StringRef> faster;
  SmallVector<optimus::MeshAxisAttr> axes = mesh.getAxisList();
  for (optimus::MeshAxisAttr each : llvm::reverse(axes)) {
    if (each.getName().getValue() == axis)
      return rank / mesh.getProduct(faster) % each.getSize();
    faster.push_back(each.getName().getValue());
  }
  llvm_unreachable("verified");
}

int64_t ExecEvaluator::evaluate(const RankNumber &number, int64_t rank) {
  if (!number.axes)
    return number.constant;
  int64_t index = 0;
  for (StringRef axis : number.axes.getAsValueRange<StringAttr>())
    index = index * *mesh.getAxisSize(axis) + getCoordinate(rank, axis);
  return number.constant + number.scale * index;
}

double &ExecEvaluator::at(Value buffer, int64_t rank, int64_t element) {
  while (auto view = buffer.getDefiningOp<BufferViewOpInterface>()) {
    element += evaluate(view.getByteOffset(), rank) / 4;
    std::optional<RankChoice> choice = view.getChoice();
    bool isOther = choice && getCoordinate(rank, choice->axis) != choice->index;
    buffer = view.getViewedBuffers()[isOther];
  }
  return memory[buffer][rank].at(element);
}

void ExecEvaluator::compute(CopyOp op, int64_t rank) {
  for (int64_t row = 0; row < int64_t(op.getRows()); ++row)
    for (int64_t col = 0; col < int64_t(op.getCols()); ++col)
      at(op.getDst(), rank, row * op.getDstLd() + col) =
          at(op.getSrc(), rank, row * op.getSrcLd() + col);
}

/// Row by row: which layout it is only its readers know.
void ExecEvaluator::compute(PackOp op, int64_t rank) {
  const int64_t rows = op.getRows(), cols = op.getCols(), ld = op.getLd();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      at(op.getDst(), rank, row * cols + col) =
          at(op.getSrc(), rank, op.getTrans() ? col * ld + row : row * ld + col);
}

void ExecEvaluator::compute(GemmOp op, int64_t rank) {
  const int64_t ldb = op.getPackedB() ? op.getN() : op.getLdb();
  for (int64_t i = 0; i < int64_t(op.getM()); ++i)
    for (int64_t j = 0; j < int64_t(op.getN()); ++j) {
      double &c = at(op.getC(), rank, i * op.getLdc() + j);
      double sum = op.getAccumulate() ? c : 0;
      for (int64_t k = 0; k < int64_t(op.getK()); ++k)
        sum += at(op.getA(), rank, i * op.getLda() + k) *
               at(op.getB(), rank, op.getTransB() ? j * ldb + k : k * ldb + j);
      c = sum;
    }
}

void ExecEvaluator::compute(CollectiveStartOp op) {
  const int64_t outer = op.getOuter(), inner = op.getInner();
  const int64_t size = *mesh.getAxisSize(op.getAxis());
  auto areTogether = [&](int64_t a, int64_t b) {
    return llvm::all_of(mesh.getAxisList(), [&](optimus::MeshAxisAttr axis) {
      StringRef name = axis.getName().getValue();
      return name == op.getAxis() ||
             getCoordinate(a, name) == getCoordinate(b, name);
    });
  };
  struct Write {
    int64_t rank, element;
    double value;
  };
  std::vector<Write> writes;
  for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
    std::vector<int64_t> group;
    for (int64_t other = 0; other < getNumRanks(); ++other)
      if (areTogether(rank, other))
        group.push_back(other);
    const int64_t own = getCoordinate(rank, op.getAxis());
    const int64_t root = op.getRoot();
    for (int64_t row = 0; row < outer; ++row)
      for (int64_t col = 0; col < inner; ++col) {
        auto read = [&](int64_t member, int64_t block) {
          return at(op.getSrc(), group[member],
                    row * op.getSrcLd() + block * inner + col);
        };
        auto write = [&](int64_t block, double value) {
          writes.push_back({rank,
                            int64_t(row * op.getDstLd() + block * inner + col),
                            value});
        };
        auto sum = [&](int64_t block) {
          double total = 0;
          for (int64_t member = 0; member < size; ++member)
            total += read(member, block);
          return total;
        };
        switch (op.getKind()) {
        case CollectiveKind::Broadcast:
          write(0, read(root, 0));
          break;
        case CollectiveKind::Reduce:
          if (own == root)
            write(0, sum(0));
          break;
        case CollectiveKind::AllReduce:
          write(0, sum(0));
          break;
        case CollectiveKind::AllGather:
          for (int64_t member = 0; member < size; ++member)
            write(member, read(member, 0));
          break;
        case CollectiveKind::ReduceScatter:
          write(0, sum(own));
          break;
        }
      }
  }
  for (const Write &write : writes)
    at(op.getDst(), write.rank, write.element) = write.value;
}

void ExecEvaluator::run() {
  for (Operation &op : function.getBody().front()) {
    if (auto allocation = dyn_cast<AllocOp>(op))
      allocate(allocation.getBuffer());
    if (auto start = dyn_cast<CollectiveStartOp>(op))
      compute(start);
    for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
      if (auto copy = dyn_cast<CopyOp>(op))
        compute(copy, rank);
      if (auto pack = dyn_cast<PackOp>(op))
        compute(pack, rank);
      if (auto gemm = dyn_cast<GemmOp>(op))
        compute(gemm, rank);
    }
  }
}
