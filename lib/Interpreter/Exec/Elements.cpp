//===- Elements.cpp - Elements as bytes -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Elements.h"

#include "llvm/ADT/APFloat.h"

#include <cstring>

using namespace mlir;
using namespace mlir::exec;

static llvm::APFloat convert(Type type, double value) {
  llvm::APFloat number(value);
  bool losesInformation;
  number.convert(cast<FloatType>(type).getFloatSemantics(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInformation);
  return number;
}

static double widen(llvm::APFloat number) {
  bool losesInformation;
  number.convert(llvm::APFloat::IEEEdouble(),
                 llvm::APFloat::rmNearestTiesToEven, &losesInformation);
  return number.convertToDouble();
}

double mlir::exec::roundTo(Type type, double value) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  return widen(convert(type, value));
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
  return widen(llvm::APFloat(cast<FloatType>(type).getFloatSemantics(),
                             llvm::APInt(16, loadAs<uint16_t>(bytes))));
}

void mlir::exec::storeElement(Type type, double value, char *bytes) {
  if (type.isF64())
    return storeAs(value, bytes);
  if (type.isF32())
    return storeAs(static_cast<float>(value), bytes);
  if (type.isInteger())
    return storeAs(static_cast<int32_t>(value), bytes);
  storeAs(static_cast<uint16_t>(
              convert(type, value).bitcastToAPInt().getZExtValue()),
          bytes);
}
