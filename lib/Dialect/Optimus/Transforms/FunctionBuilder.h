//===- FunctionBuilder.h - A function of a step -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_FUNCTIONBUILDER_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_FUNCTIONBUILDER_H

#include "LossFunction.h"
#include "StepBuffers.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Where parameter `index` comes from; its path is its name.
inline Location getParamLoc(LossFunction loss, func::FuncOp grad,
                            int64_t index) {
  return withPath(grad.getArgument(index).getLoc(), loss.getParamName(index));
}

/// Builds a function that may donate arguments to results.
class StepFunctionBuilder {
public:
  StepFunctionBuilder(LossFunction loss, func::FuncOp grad, StepBuffers buffers,
                      StringRef name)
      : loss(loss), grad(grad), buffers(buffers), builder(grad.getContext()),
        function(func::FuncOp::create(grad.getLoc(), name,
                                      builder.getFunctionType({}, {}))),
        block(function.addEntryBlock()) {
    builder.setInsertionPointToEnd(block);
  }

  /// An argument; with `donates` result `result` takes its buffer.
  BlockArgument addArgument(Type type, Location loc, NamedAttrList attrs,
                            std::optional<int64_t> donates = std::nullopt) {
    if (donates)
      attrs.set(OptimusDialect::kDonates, builder.getI64IntegerAttr(*donates));
    argAttrs.push_back(attrs.getDictionary(builder.getContext()));
    return block->addArgument(type, loc);
  }
  /// The sum of the gradients of parameter `index` over microbatches.
  BlockArgument addSum(int64_t index,
                       std::optional<int64_t> donates = std::nullopt) {
    auto role = grad.getArgAttrOfType<StringAttr>(index, OptimusDialect::kRole);
    if (role)
      role = builder.getStringAttr(kSumRole + role.getValue());
    return addTensor(index, buffers.getGradientSum(getParamName(index)), role,
                     donates);
  }
  /// An argument that belongs to parameter `index` and lies as its role says.
  BlockArgument addTensor(int64_t index, BufferAttr buffer, StringAttr role,
                          std::optional<int64_t> donates);
  /// The argument of `@grad` itself.
  BlockArgument addShared(int64_t index,
                          std::optional<int64_t> donates = std::nullopt) {
    BlockArgument arg = grad.getArgument(index);
    return addArgument(arg.getType(), arg.getLoc(), grad.getArgAttrDict(index),
                       donates);
  }
  BlockArgument addScalar(BufferAttr buffer,
                          std::optional<int64_t> donates = std::nullopt) {
    NamedAttrList attrs;
    attrs.set(OptimusDialect::kBinding, buffer);
    return addArgument(RankedTensorType::get({}, builder.getF32Type()),
                       grad.getLoc(), attrs, donates);
  }
  /// To be called once all arguments are there: operations take their roles
  /// from the arguments' attributes.
  void finishArguments() {
    function.setType(builder.getFunctionType(block->getArgumentTypes(), {}));
    function.setAllArgAttrs(argAttrs);
  }
  /// Clones the body of `@grad`; returns loss_sum, real_count and gradients.
  SmallVector<Value> cloneGrad(ArrayRef<BlockArgument> params,
                               ArrayRef<BlockArgument> inputs);
  /// A result in a buffer of its own or, without one, in the buffer of the
  /// argument that donates to it.
  void addResult(Value value, BufferAttr buffer = {}) {
    results.push_back(value);
    NamedAttrList attrs;
    if (buffer)
      attrs.set(OptimusDialect::kBinding, buffer);
    resultAttrs.push_back(attrs.getDictionary(grad.getContext()));
  }
  StringAttr getParamName(int64_t index) {
    return builder.getStringAttr(loss.getParamName(index));
  }
  func::FuncOp finish() {
    func::ReturnOp::create(builder, grad.getLoc(), results);
    function.setType(builder.getFunctionType(block->getArgumentTypes(),
                                             TypeRange(ValueRange(results))));
    function.setAllResultAttrs(resultAttrs);
    return function;
  }

  LossFunction loss;
  func::FuncOp grad;
  StepBuffers buffers;
  OpBuilder builder;

private:
  func::FuncOp function;
  Block *block;
  SmallVector<DictionaryAttr> argAttrs, resultAttrs;
  SmallVector<Value> results;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_TRANSFORMS_FUNCTIONBUILDER_H
