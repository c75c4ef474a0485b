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
#include "optimus-support/model_abi.h"

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

static_assert(int(ElementType::F32) == OPTRT_F32 &&
                  int(ElementType::F16) == OPTRT_F16 &&
                  int(ElementType::BF16) == OPTRT_BF16 &&
                  int(ElementType::I32) == OPTRT_I32,
              "descriptors have the values of tables");

/// The largest of them.
inline constexpr int64_t kMaxElementBytes = 8;

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_ELEMENTTYPE_H
