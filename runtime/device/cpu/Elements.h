//===- Elements.h - What operands consist of ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_ELEMENTS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_ELEMENTS_H

#include "optimus-runtime/Status.h"
#include "optimus-support/ElementType.h"

#include <iterator>
#include <string>

namespace optrt {

inline const float *asF32(const void *address) {
  return static_cast<const float *>(address);
}
inline float *asF32(void *address) { return static_cast<float *>(address); }
inline const uint16_t *asBF16(const void *address) {
  return static_cast<const uint16_t *>(address);
}
inline uint16_t *asBF16(void *address) {
  return static_cast<uint16_t *>(address);
}

/// A type named by descriptors and supported by this device.
inline StatusOr<optimus_support::ElementType> typeOf(const char *what,
                                                     int32_t type) {
  using optimus_support::ElementType;
  if (type == int32_t(ElementType::F32) || type == int32_t(ElementType::BF16))
    return ElementType(type);
  return invalidArgument(concat(
      what, " expects elements of f32 or bf16; found ",
      type >= 0 && type < int32_t(std::size(optimus_support::kElementTypeNames))
          ? std::string(toString(ElementType(type)))
          : concat("type ", type)));
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_ELEMENTS_H
