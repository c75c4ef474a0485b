//===- BufferAssignment.cpp - Which buffer each tensor lives in -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Buffers are chosen in three steps. Returned results get the buffer of the
// donating argument, or of their output. The choice spreads backwards through
// operations that work in place: a value updated before its return is made
// where it ends. All others are chosen forwards: an operand's buffer at its
// last use, or a new one.
//
//   %0 = matmul %x, %w    -> the output's: %2 is returned, gelu works in place
//   %1 = gelu %0          -> the output's, backwards from %2
//   %2 = add %1, %s       -> the output's
//   %s = mul %a, %b       -> a new one of category "activation"
//
//===----------------------------------------------------------------------===//

#include "BufferAssignment.h"

#include "Lowering.h"

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-to-exec"

using namespace mlir;
using namespace mlir::optimus;

MemRefType mlir::optimus::getFlatType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get({type.getNumElements()}, type.getElementType());
}

/// The operands whose buffer an operation can write a result into.
static SmallVector<unsigned> getInPlaceOperands(OpResult result) {
  auto op = dyn_cast<ExecLoweringOpInterface>(result.getOwner());
  return op ? op.getInPlaceOperands(result.getResultNumber())
            : SmallVector<unsigned>();
}

/// Of a loss, its first result that is a gradient.
static std::optional<unsigned> getFirstGradient(Operation *op) {
  auto lowering = dyn_cast<ExecLoweringOpInterface>(op);
  return lowering ? lowering.getFirstGradient() : std::nullopt;
}

std::optional<int64_t> BufferAssignment::getOutput(unsigned result) const {
  return outputs[result];
}

/// Whether an operation gives a parameter another element type.
static bool isNarrowedParameter(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         isParameter(op->getOperand(0)) &&
         getElementTypeOrSelf(op->getOperand(0)) !=
             getElementTypeOrSelf(op->getResult(0));
}

namespace mlir::optimus {
class BufferAssigner {
public:
  explicit BufferAssigner(func::FuncOp function) : function(function) {}

  FailureOr<BufferAssignment> run() {
    numberOperations();
    for (BlockArgument argument : function.getArguments())
      assign(argument, addBuffer(Buffer::Argument, argument.getArgNumber(),
                                 argument.getType()));
    if (failed(assignResults()))
      return failure();
    for (Operation &op : llvm::reverse(getBody()))
      spreadBackwards(&op);
    for (Operation &op : getBody())
      for (OpResult result : op.getResults())
        if (!assignment.assigned.contains(result))
          assignForwards(result);
    for (Operation &op : getBody())
      for (OpResult result : op.getResults())
        assignment.buffers[assignment.assigned[result]].values.push_back(
            getValueId(result));
    return std::move(assignment);
  }

private:
  Block &getBody() { return function.getBody().front(); }

  void numberOperations() {
    int64_t number = 0;
    bool afterLoss = false;
    for (Operation &op : getBody()) {
      numbers[&op] = number++;
      afterLosses[&op] = afterLoss;
      afterLoss |= getFirstGradient(&op).has_value();
    }
  }

  int64_t addBuffer(Buffer::Kind kind, int64_t index, Type tensor) {
    assignment.buffers.push_back({kind, index, getFlatType(tensor), "", {}});
    return assignment.buffers.size() - 1;
  }

  void assign(Value value, int64_t buffer) {
    assignment.assigned[value] = buffer;
  }

  /// The number of the operation that makes a value.
  int64_t getStart(Value value) {
    Operation *definition = value.getDefiningOp();
    return definition ? numbers[definition] : -1;
  }

  /// The number of the last operation that uses a value; its own if none does.
  int64_t getLastUse(Value value) {
    int64_t last = getStart(value);
    for (Operation *user : value.getUsers())
      last = std::max(last, numbers[user]);
    return last;
  }

  static bool haveOneBuffer(Value a, Value b) {
    return getFlatType(a.getType()) == getFlatType(b.getType());
  }

  /// True if `op` can write `result` where `operand` lies, as far as the
  /// operation goes.
  static bool canWorkInPlace(Operation *op, OpResult result, Value operand) {
    return !op->hasAttr(ccl::kOwnBuffer) &&
           llvm::count(op->getOperands(), operand) == 1 &&
           haveOneBuffer(operand, result) &&
           llvm::any_of(getInPlaceOperands(result), [&](unsigned number) {
             return op->getOperand(number) == operand;
           });
  }

  LogicalResult assignResults() {
    auto terminator = cast<func::ReturnOp>(getBody().getTerminator());
    unsigned numResults = terminator.getNumOperands();
    SmallVector<std::optional<BlockArgument>> donors(numResults);
    for (BlockArgument argument : function.getArguments()) {
      auto donated = function.getArgAttrOfType<IntegerAttr>(
          argument.getArgNumber(), OptimusDialect::kDonates);
      if (!donated)
        continue;
      if (donated.getInt() < 0 || donated.getInt() >= numResults ||
          donors[donated.getInt()])
        return function.emitOpError()
               << "argument " << argument.getArgNumber()
               << " donates to result " << donated.getInt()
               << ", which does not exist or has another donor";
      donors[donated.getInt()] = argument;
    }
    for (unsigned result = 0; result < numResults; ++result) {
      Value value = terminator.getOperand(result);
      if (donors[result]) {
        assignment.outputs.push_back(std::nullopt);
        if (failed(assignDonated(value, *donors[result], result)))
          return failure();
        continue;
      }
      int64_t output = addBuffer(Buffer::Output, result, value.getType());
      assignment.outputs.push_back(output);
      if (assignment.assigned.contains(value))
        assignment.copied.push_back(result);
      else
        assign(value, output);
    }
    return success();
  }

  /// Puts result `number`, `value`, into the buffer of the argument that
  /// donates to it.
  LogicalResult assignDonated(Value value, BlockArgument donor,
                              unsigned number) {
    if (value == donor)
      return success();
    auto fail = [&](StringRef why) -> LogicalResult {
      Operation *definition = value.getDefiningOp();
      InFlightDiagnostic error =
          (definition ? definition : function.getOperation())->emitOpError();
      error << "cannot write result " << number
            << " of the function into the buffer that argument "
            << donor.getArgNumber() << " donates: " << why;
      return failure();
    };
    if (!haveOneBuffer(value, donor))
      return fail("their types differ");
    auto result = dyn_cast<OpResult>(value);
    if (!result || assignment.assigned.contains(value))
      return fail("the value already has another place");
    Operation *op = result.getOwner();
    if (getLastUse(donor) > numbers[op])
      return fail("the argument is used later");
    if (getLastUse(donor) == numbers[op] && !canWorkInPlace(op, result, donor))
      return fail("the operation cannot work in place");
    assign(value, assignment.assigned[donor]);
    return success();
  }

  /// If a result of `op` has its place, gives an operand that ends here and can
  /// be updated in place the same one.
  void spreadBackwards(Operation *op) {
    for (OpResult result : op->getResults()) {
      auto found = assignment.assigned.find(result);
      if (found == assignment.assigned.end())
        continue;
      int64_t buffer = found->second;
      for (unsigned number : getInPlaceOperands(result)) {
        Value operand = op->getOperand(number);
        if (assignment.assigned.contains(operand) ||
            getLastUse(operand) != numbers[op] ||
            !canWorkInPlace(op, result, operand) ||
            !isFreeFrom(buffer, getStart(operand)))
          continue;
        assign(operand, buffer);
        ++assignment.numInPlace;
        LDBG() << "in place: " << op->getName() << " of "
               << describeLocation(op->getLoc()) << ", operand " << number
               << " begins in the result's buffer " << buffer;
        break;
      }
    }
  }

  /// True if what a buffer holds at first is not used from some operation on.
  bool isFreeFrom(int64_t buffer, int64_t start) {
    const Buffer &info = assignment.buffers[buffer];
    return info.kind == Buffer::Output ||
           getLastUse(function.getArgument(info.index)) < start;
  }

  void assignForwards(OpResult result) {
    Operation *op = result.getOwner();
    for (unsigned number : getInPlaceOperands(result)) {
      Value operand = op->getOperand(number);
      auto found = assignment.assigned.find(operand);
      if (found == assignment.assigned.end() ||
          assignment.buffers[found->second].kind != Buffer::Allocated ||
          getLastUse(operand) != numbers[op] ||
          !canWorkInPlace(op, result, operand) ||
          llvm::any_of(op->getResults(), [&](OpResult other) {
            auto taken = assignment.assigned.find(other);
            return taken != assignment.assigned.end() &&
                   taken->second == found->second;
          }))
        continue;
      assign(result, found->second);
      ++assignment.numInPlace;
      LDBG() << "in place: " << op->getName() << " of "
             << describeLocation(op->getLoc()) << " writes buffer "
             << found->second << " of operand " << number;
      return;
    }
    int64_t buffer =
        addBuffer(Buffer::Allocated, numAllocated++, result.getType());
    std::optional<unsigned> firstGradient = getFirstGradient(op);
    bool isGradient =
        (afterLosses[op] && !op->hasAttr(OptimusDialect::kRecomputed)) ||
        (firstGradient && result.getResultNumber() >= *firstGradient);
    assignment.buffers[buffer].category = isNarrowedParameter(op)
                                              ? "narrow weight"
                                          : isGradient ? "gradient"
                                                       : "activation";
    assign(result, buffer);
    LDBG() << "buffer " << buffer << " (" << assignment.buffers[buffer].category
           << "): " << getValueId(result);
  }

  func::FuncOp function;
  BufferAssignment assignment;
  llvm::DenseMap<Operation *, int64_t> numbers;
  llvm::DenseMap<Operation *, bool> afterLosses;
  int64_t numAllocated = 0;
};
} // namespace mlir::optimus

FailureOr<BufferAssignment> BufferAssignment::compute(func::FuncOp function) {
  return BufferAssigner(function).run();
}
