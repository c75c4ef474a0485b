//===- BufferElements.h - What buffers of a program hold --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_TOEXEC_BUFFERELEMENTS_H
#define OPTIMUS_CONVERSION_TOEXEC_BUFFERELEMENTS_H

#include "mlir/IR/BuiltinTypes.h"

namespace mlir::optimus {

/// Whether values of a type have buffers: tensors of f32, bf16, f16 or i32 with
/// a static shape and at least one element.
inline bool hasBuffers(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getNumElements() == 0)
    return false;
  Type element = tensor.getElementType();
  return element.isF32() || element.isBF16() || element.isF16() ||
         element.isInteger(32);
}

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_TOEXEC_BUFFERELEMENTS_H
