//===- LocalOps.h - Operations on one rank's parts --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operation of `optimus` computes each rank's results from that rank's
// parts of its operands. Its model gives one function,
//
//   static LogicalResult run(AddOp op, Frame &frame);
//
// which computes the results of one rank; the same function on whole tensors
// is the operation's serial semantics, against which the ranks' results, put
// together, are checked.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_LOCALOPS_H
#define OPTIMUS_LIB_INTERPRETER_LOCALOPS_H

#include "optimus/Interpreter/InterpretableOpInterface.h"
#include "optimus/Interpreter/Ranks.h"

namespace mlir::optimus {

/// What one execution of an operation reads and writes: the parts of one rank,
/// or whole tensors.
class Frame {
public:
  /// The parts of `rank`.
  Frame(Operation *op, const Ranks &ranks, int64_t rank);
  /// Whole tensors.
  Frame(Operation *op, ArrayRef<Tensor> operands);

  const Tensor &get(Value operand) const;
  /// A result, at first zero.
  Tensor &result(Value result);
  std::vector<Tensor> &getResults() { return results; }

  /// Where a dimension of an operand or result lies in the whole.
  Extent getExtent(Value value, int64_t dim) const;
  /// The same of the last dimension.
  Extent getLastExtent(Value value) const;
  /// For each index of dimensions [first, last) of a value, row-major, whether
  /// it is padding.
  std::vector<bool> getPadding(Value value, int64_t first, int64_t last) const;

  /// An error on the operation that says where it was executed.
  InFlightDiagnostic emitError() const;

private:
  Operation *op;
  std::string where;
  std::vector<const Tensor *> operands;
  std::vector<Tensor> results;
  std::vector<SmallVector<Extent>> operandExtents, resultExtents;
};

using LocalFunction = llvm::function_ref<LogicalResult(Frame &)>;

/// Executes an operation on each rank, then compares with whole tensors unless
/// `hasSerialSemantics` is false.
LogicalResult interpretLocally(Operation *op, Ranks &ranks,
                               bool hasSerialSemantics, LocalFunction run);

/// The model of an operation on one rank's parts.
/// Without serial semantics it works on statistics of parts, which whole
/// tensors do not have.
template <typename Op, LogicalResult (*executeLocally)(Op, Frame &),
          bool hasSerialSemantics = true>
class LocalModel : public InterpretableOpInterface::ExternalModel<
                       LocalModel<Op, executeLocally, hasSerialSemantics>, Op> {
public:
  LogicalResult interpret(Operation *op, Ranks &ranks) const {
    return interpretLocally(op, ranks, hasSerialSemantics, [&](Frame &frame) {
      return executeLocally(cast<Op>(op), frame);
    });
  }

  static void attach(MLIRContext &context) {
    Op::template attachInterface<LocalModel>(context);
  }
};

/// The model of an operation on all ranks together.
template <typename Op, LogicalResult (*executeTogether)(Op, Ranks &)>
class RanksModel : public InterpretableOpInterface::ExternalModel<
                       RanksModel<Op, executeTogether>, Op> {
public:
  LogicalResult interpret(Operation *op, Ranks &ranks) const {
    return executeTogether(cast<Op>(op), ranks);
  }

  static void attach(MLIRContext &context) {
    Op::template attachInterface<RanksModel>(context);
  }
};

// Each attaches the models of some operations.
void attachConstants(MLIRContext &context);
void attachDropout(MLIRContext &context);
void attachElementwise(MLIRContext &context);
void attachProducts(MLIRContext &context);
void attachNorms(MLIRContext &context);
void attachAttention(MLIRContext &context);
void attachEmbedding(MLIRContext &context);
void attachHeadLoss(MLIRContext &context);
void attachOptimizer(MLIRContext &context);
void attachTokenOps(MLIRContext &context);
void attachDistributedProducts(MLIRContext &context);
void attachDistributedHeadLoss(MLIRContext &context);
void attachCollectives(MLIRContext &context);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_INTERPRETER_LOCALOPS_H
