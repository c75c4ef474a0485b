//===- BFloat16.h - bf16 and f32 --------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_BFLOAT16_H
#define OPTIMUS_SUPPORT_BFLOAT16_H

#include <bit>
#include <cstdint>

namespace optimus_support {

/// The number that 16 bits are as bf16: those that f32 begins with.
constexpr float fromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// The nearest bf16, of two the even one. NaN stays NaN, with its sign.
constexpr uint16_t toBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t high = static_cast<uint16_t>(bits >> 16);
  const uint32_t rounded = bits + 0x7FFF + (high & 1);
  // Without a branch, so that loops over it become vector code.
  const bool isNaN = (bits & 0x7FFFFFFF) > 0x7F800000;
  return isNaN ? uint16_t(high | 0x40) : static_cast<uint16_t>(rounded >> 16);
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_BFLOAT16_H
