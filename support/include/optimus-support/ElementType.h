//===- ElementType.h - What the elements of a tensor are --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_ELEMENTTYPE_H
#define OPTIMUS_SUPPORT_ELEMENTTYPE_H

// The enumeration itself, F32 and so on: schema/element_type.fbs.
#include "optimus-support/element_type_generated.h"

#include <cstdint>
#include <string_view>

namespace optimus_support {

/// By ElementType, as MLIR and the manifest spell them.
inline constexpr std::string_view kElementTypeNames[] = {
    "f32", "f64", "f16", "bf16", "i32", "i64", "i8"};

constexpr std::string_view toString(ElementType type) {
  return kElementTypeNames[static_cast<int>(type)];
}

constexpr int64_t elementBytes(ElementType type) {
  constexpr int64_t bytes[] = {4, 8, 2, 2, 4, 8, 1};
  return bytes[static_cast<int>(type)];
}

/// The bits of precision of a floating-point type, of whose unit roundoff 2 to
/// minus this is; 0 of integers.
constexpr int precisionBits(ElementType type) {
  constexpr int bits[] = {24, 53, 11, 8, 0, 0, 0};
  return bits[static_cast<int>(type)];
}

/// The largest of them.
inline constexpr int64_t kMaxElementBytes = 8;

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_ELEMENTTYPE_H
