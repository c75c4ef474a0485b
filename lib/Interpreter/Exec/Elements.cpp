//===- Elements.cpp - Elements as bytes -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Elements.h"

#include "optimus/Interpreter/Tensor.h"

#include <cstring>

using namespace mlir;
using namespace mlir::exec;

double mlir::exec::roundTo(Type type, double value) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  return optimus::roundTo(cast<FloatType>(type), value).convertToDouble();
}

template <typename T>
static T loadAs(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <typename T>
static void storeAs(T value, char *bytes) {
  std::memcpy(bytes, &value, sizeof(T));
}

double mlir::exec::loadElement(Type type, const char *bytes) {
  if (type.isF64())
    return loadAs<double>(bytes);
  if (type.isF32())
    return loadAs<float>(bytes);
  if (type.isInteger())
    return loadAs<int32_t>(bytes);
  return llvm::APFloat(cast<FloatType>(type).getFloatSemantics(),
                       llvm::APInt(16, loadAs<uint16_t>(bytes)))
      .convertToDouble();
}

void mlir::exec::storeElement(Type type, double value, char *bytes) {
  if (type.isF64())
    return storeAs(value, bytes);
  if (type.isF32())
    return storeAs(static_cast<float>(value), bytes);
  if (type.isInteger())
    return storeAs(static_cast<int32_t>(value), bytes);
  llvm::APInt bits =
      optimus::roundTo(cast<FloatType>(type), value).bitcastToAPInt();
  storeAs(static_cast<uint16_t>(bits.getZExtValue()), bytes);
}
