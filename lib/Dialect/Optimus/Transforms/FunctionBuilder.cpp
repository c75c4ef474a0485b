//===- FunctionBuilder.cpp - A function of a step ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::optimus;

BlockArgument StepFunctionBuilder::addTensor(int64_t index, BufferAttr buffer,
                                             StringAttr role,
                                             std::optional<int64_t> donates) {
  NamedAttrList attrs;
  for (StringRef shared : {OptimusDialect::kHfShape, OptimusDialect::kPacked,
                           OptimusDialect::kDims, OptimusDialect::kSharding})
    if (Attribute attr = grad.getArgAttr(index, shared))
      attrs.set(shared, attr);
  if (role)
    attrs.set(OptimusDialect::kRole, role);
  attrs.set(OptimusDialect::kBinding, buffer);
  BlockArgument arg = grad.getArgument(index);
  return addArgument(arg.getType(), arg.getLoc(), attrs, donates);
}

SmallVector<Value>
StepFunctionBuilder::cloneGrad(ArrayRef<BlockArgument> params,
                               ArrayRef<BlockArgument> inputs) {
  IRMapping mapping;
  mapping.map(grad.getArguments().take_front(loss.numParams), params);
  mapping.map(grad.getArguments().drop_front(loss.numParams), inputs);
  Block &body = grad.front();
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> values;
  for (Value operand : body.getTerminator()->getOperands())
    values.push_back(mapping.lookup(operand));
  return values;
}
