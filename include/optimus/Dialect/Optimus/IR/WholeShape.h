//===- WholeShape.h - What a tensor is a part of ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After partitioning an operation of this dialect has the parts of a rank. Where
// their extents alone say too little, it asks for those of the whole tensors.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_WHOLESHAPE_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_WHOLESHAPE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/Value.h"

namespace mlir::optimus {

/// Of a dialect whose attributes are encodings of parts.
class PartsInterface : public DialectInterface::Base<PartsInterface> {
public:
  PartsInterface(Dialect *dialect) : Base(dialect) {}

  /// The shape of the tensor that one with this encoding is a part of.
  virtual ArrayRef<int64_t> getWholeShape(Attribute encoding) const = 0;
};

/// Of a ranked tensor: its own shape, where it is no part.
inline ArrayRef<int64_t> getWholeShape(Value value) {
  auto tensor = cast<RankedTensorType>(value.getType());
  if (Attribute encoding = tensor.getEncoding())
    if (auto *parts = encoding.getDialect()
                          .getRegisteredInterface<PartsInterface>())
      return parts->getWholeShape(encoding);
  return tensor.getShape();
}

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_WHOLESHAPE_H
