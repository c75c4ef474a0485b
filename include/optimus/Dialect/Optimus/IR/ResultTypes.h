//===- ResultTypes.h - Types that follow from operands ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What Optimus_ResultTypes of OptimusOpBase.td is made of.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_RESULTTYPES_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_RESULTTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ValueRange.h"

namespace mlir::optimus::detail {

inline void addResultType(SmallVectorImpl<Type> &types, Type type) {
  types.push_back(type);
}
/// That of an operand, if it is there.
inline void addResultType(SmallVectorImpl<Type> &types, Value like) {
  if (like)
    types.push_back(like.getType());
}
inline void addResultType(SmallVectorImpl<Type> &types, ValueRange like) {
  llvm::append_range(types, like.getTypes());
}

inline Type getScalarType(MLIRContext *context) {
  return RankedTensorType::get({}, Float32Type::get(context));
}

/// That of a tensor, but of f32 elements.
inline Type getF32Type(Value like) {
  return cast<RankedTensorType>(like.getType())
      .clone(Float32Type::get(like.getContext()));
}

/// The whole product of A and B, whatever they are: [M…, N…]. Groups of
/// dimensions that they lack are left out.
/// The f32 type of the logits that a table [v, h] gives for h.
Type getLogitsType(Value h, Value table);
Type getProductType(Value a, Value b, int64_t contracting, bool transposeA,
                    bool transposeB);

} // namespace mlir::optimus::detail

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_RESULTTYPES_H
