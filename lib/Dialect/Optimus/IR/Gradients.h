//===- Gradients.h - What gradients of operations share ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_OPTIMUS_IR_GRADIENTS_H
#define OPTIMUS_LIB_DIALECT_OPTIMUS_IR_GRADIENTS_H

#include "optimus/Dialect/Optimus/IR/Provenance.h"

namespace mlir::optimus {

/// Fails where a result that only gradients may read has a gradient itself.
inline LogicalResult rejectGradients(Operation *op, ArrayRef<Value> gradients,
                                     ArrayRef<StringRef> names,
                                     unsigned first) {
  for (auto [gradient, name] : llvm::zip(gradients.drop_front(first), names))
    if (gradient)
      return op->emitOpError()
             << "has no gradient for a loss that depends on its result '"
             << name << "'";
  return success();
}

/// `gradient` with the element type of `value`, whose gradient it is.
inline Value castLike(OpBuilder &builder, Value value, Value gradient) {
  auto type = cast<RankedTensorType>(gradient.getType());
  Type elements = cast<RankedTensorType>(value.getType()).getElementType();
  if (type.getElementType() == elements)
    return gradient;
  return CastOp::create(builder, withPart(gradient.getLoc(), "cast"),
                        type.clone(elements), gradient);
}

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_DIALECT_OPTIMUS_IR_GRADIENTS_H
