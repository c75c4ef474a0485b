//===- CommunicationCommands.cpp - Collectives ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

using namespace mlir;
using namespace mlir::exec;

namespace {

/// What moves is there when the collective starts. Whether anybody touches it
/// before the wait is a matter of order, not of when we move it.
class Collective {
public:
  Collective(CollectiveStartOp op, Devices &devices, ArrayRef<int64_t> group)
      : op(op), devices(devices), group(group), outer(op.getOuter()),
        inner(op.getInner()) {}

  void run() {
    switch (op.getKind()) {
    case CollectiveKind::Broadcast: {
      Operand root = getSource(op.getRoot());
      std::vector<double> panel = read(root);
      for (size_t member = 0; member < group.size(); ++member) {
        Operand dst = getDestination(member);
        // The root's own panel does not move.
        if (member != op.getRoot() || !dst.isAt(root))
          write(dst, panel);
      }
      return;
    }
    case CollectiveKind::Reduce:
      return write(getDestination(op.getRoot()), combine(inner));
    case CollectiveKind::AllReduce: {
      std::vector<double> sum = combine(inner);
      for (size_t member = 0; member < group.size(); ++member)
        write(getDestination(member), sum);
      return;
    }
    case CollectiveKind::AllGather: {
      std::vector<std::vector<double>> blocks;
      for (size_t member = 0; member < group.size(); ++member)
        blocks.push_back(read(getSource(member)));
      for (size_t member = 0; member < group.size(); ++member)
        for (auto [owner, block] : llvm::enumerate(blocks))
          write(getDestination(member), block, owner * inner);
      return;
    }
    case CollectiveKind::ReduceScatter: {
      int64_t width = inner * group.size();
      std::vector<double> sum = combine(width);
      for (size_t member = 0; member < group.size(); ++member) {
        std::vector<double> block;
        for (int64_t row = 0; row < outer; ++row)
          for (int64_t col = 0; col < inner; ++col)
            block.push_back(sum[row * width + member * inner + col]);
        write(getDestination(member), block);
      }
      return;
    }
    }
  }

private:
  Operand getSource(int64_t member) {
    return devices.getOperand(op.getSrcMutable(), group[member]);
  }
  Operand getDestination(int64_t member) {
    return devices.getOperand(op.getDstMutable(), group[member]);
  }

  std::vector<double> read(const Operand &src) {
    return src.readMatrix(outer, inner, op.getSrcLd());
  }
  void write(const Operand &dst, ArrayRef<double> block, int64_t firstCol = 0) {
    for (int64_t row = 0; row < outer; ++row)
      for (int64_t col = 0; col < inner; ++col)
        dst.write(row * int64_t(op.getDstLd()) + firstCol + col,
                  block[row * inner + col]);
  }

  /// What the members hold, `width` columns of it, combined in rank order.
  std::vector<double> combine(int64_t width) {
    std::vector<double> result;
    for (size_t member = 0; member < group.size(); ++member) {
      std::vector<double> term =
          getSource(member).readMatrix(outer, width, op.getSrcLd());
      if (result.empty()) {
        result = std::move(term);
        continue;
      }
      bool isSum = op.getReduction() == Reduction::Sum;
      for (auto [to, value] : llvm::zip_equal(result, term))
        to = isSum ? to + value : std::max(to, value);
    }
    return result;
  }

  CollectiveStartOp op;
  Devices &devices;
  ArrayRef<int64_t> group;
  int64_t outer, inner;
};

LogicalResult executeCommand(CollectiveStartOp op, Devices &devices) {
  for (ArrayRef<int64_t> group : devices.getRanks().getGroups(op.getAxis()))
    Collective(op, devices, group).run();
  return success();
}

/// A wait touches nothing; what it means is in the order of commands.
LogicalResult executeCommand(WaitOp, Devices &) { return success(); }

/// What is carried was moved when it started.
LogicalResult executeCommand(WaitCarriedOp, Devices &) { return success(); }

} // namespace

void mlir::exec::attachCommunicationCommands(MLIRContext &context) {
  CommandModel<CollectiveStartOp, executeCommand>::attach(context);
  CommandModel<WaitOp, executeCommand>::attach(context);
  CommandModel<WaitCarriedOp, executeCommand>::attach(context);
}
