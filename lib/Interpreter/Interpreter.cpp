//===- Interpreter.cpp - Executes programs on tensors -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Interpreter/Interpreter.h"

#include "Checks.h"
#include "LocalOps.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::optimus;

namespace mlir::optimus {
#include "optimus/Interpreter/InterpreterInterfaces.cpp.inc"
} // namespace mlir::optimus

void mlir::optimus::registerInterpreterModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachConstants(*context);
  });
  registry.addExtension(+[](MLIRContext *context, OptimusDialect *) {
    attachDropout(*context);
    attachElementwise(*context);
    attachProducts(*context);
    attachNorms(*context);
    attachAttention(*context);
    attachEmbedding(*context);
    attachHeadLoss(*context);
    attachOptimizer(*context);
    attachTokenOps(*context);
  });
  registry.addExtension(+[](MLIRContext *context, ccl::CCLDialect *) {
    attachDistributedProducts(*context);
    attachDistributedHeadLoss(*context);
    attachCollectives(*context);
  });
}

SmallVector<int64_t> mlir::optimus::getWholeShape(Type type) {
  return ccl::getGlobalShape(type);
}

std::string mlir::optimus::getArgumentName(func::FuncOp function,
                                           unsigned argument) {
  BufferAttr buffer = getArgumentBuffer(function, argument);
  if (!buffer)
    return "arg" + std::to_string(argument);
  // A parameter has its own name.
  return buffer.getLifetime() == Lifetime::Parameter ? buffer.getOf().str()
                                                     : buffer.getName();
}

std::string mlir::optimus::getResultName(func::FuncOp function,
                                         unsigned result) {
  BufferAttr buffer = getResultBuffer(function, result);
  return buffer ? buffer.getName() : "result" + std::to_string(result);
}

/// Checks that an argument or result is a tensor with parts on ranks.
static LogicalResult checkType(func::FuncOp function, StringRef what,
                               unsigned number, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.hasStaticShape())
    return success();
  return function.emitError("@")
         << function.getName() << ": expected " << what << ' ' << number
         << " to be a tensor of static shape, found " << type;
}

LogicalResult mlir::optimus::checkEncoding(Operation *op, Type type,
                                           const Ranks &ranks) {
  ccl::LocalAttr local = ccl::getLocal(type);
  if (!local)
    return success();
  ShardingAttr sharding = local.getSharding();
  SmallVector<StringRef> axes = sharding.getUnreducedAxes();
  for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
    llvm::append_range(axes, sharding.getDimAxes(dim));
  for (StringRef axis : axes)
    if (!ranks.getMesh().findAxis(axis.str()))
      return op->emitOpError("expected axes of the module's mesh, which has [")
             << ranks.getMesh().toString() << "]; found \"" << axis << "\" in "
             << type;
  optimus_support::ShardLayout padded = ranks.getPaddedLayout(type);
  for (auto [dim, extent] : llvm::enumerate(local.getShape()))
    if (padded.shape[dim] < extent)
      return op->emitOpError("expected parts that make up dimension ")
             << dim << " of " << type << "; all ranks together hold "
             << padded.shape[dim] << " of " << extent;
  return success();
}

static LogicalResult setArguments(func::FuncOp function,
                                  ArrayRef<Tensor> arguments, Ranks &ranks) {
  if (arguments.size() != function.getNumArguments())
    return function.emitError("@")
           << function.getName() << ": expected " << function.getNumArguments()
           << " arguments, found " << arguments.size();
  for (auto [number, argument] : llvm::enumerate(function.getArguments())) {
    Type type = argument.getType();
    if (failed(checkType(function, "argument", number, type)) ||
        failed(checkEncoding(function, type, ranks)))
      return failure();
    SmallVector<int64_t> shape = getWholeShape(type);
    if (arguments[number].shape != shape)
      return function.emitError("@")
             << function.getName() << ": expected argument '"
             << getArgumentName(function, number) << "' of shape [" << shape
             << "], found [" << arguments[number].shape << ']';
    BufferAttr buffer = getArgumentBuffer(function, number);
    bool isTargets = buffer && buffer.getRole() == "targets";
    ranks.set(argument,
              ranks.shard(arguments[number], type, isTargets ? -1 : 0));
  }
  return success();
}

static LogicalResult interpretOp(Operation *op, Ranks &ranks) {
  auto interpretable = dyn_cast<InterpretableOpInterface>(op);
  if (!interpretable)
    return op->emitOpError("cannot be interpreted: the interpreter executes "
                           "the optimus and ccl dialects and constants");
  for (Type type : op->getResultTypes())
    if (failed(checkEncoding(op, type, ranks)))
      return failure();
  if (failed(interpretable.interpret(ranks)))
    return failure();
  for (auto [number, result] : llvm::enumerate(op->getResults()))
    if (failed(checkReplicas(op, "result " + std::to_string(number), result,
                             ranks)))
      return failure();
  return success();
}

/// Whether a result is one that the next step computes with, or a gradient:
/// their padding must be zero. Padded rows of an activation may hold anything.
static bool livesOn(BufferAttr buffer) { return buffer && buffer.getOf(); }

FailureOr<SmallVector<Tensor>>
mlir::optimus::interpret(func::FuncOp function, ArrayRef<Tensor> arguments) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("@")
           << function.getName() << ": expected a body of one block";
  Ranks ranks(getMesh(function));
  if (failed(setArguments(function, arguments, ranks)))
    return failure();
  Block &body = function.getBody().front();
  for (Operation &op : body.without_terminator())
    if (failed(interpretOp(&op, ranks)))
      return failure();

  SmallVector<Tensor> results;
  Operation *terminator = body.getTerminator();
  for (auto [number, value] : llvm::enumerate(terminator->getOperands())) {
    std::string name = getResultName(function, number);
    if (failed(checkType(function, "result", number, value.getType())) ||
        (livesOn(getResultBuffer(function, number)) &&
         failed(checkPadding(terminator, name, value, ranks))))
      return failure();
    results.push_back(ranks.assemble(value));
  }
  return results;
}
