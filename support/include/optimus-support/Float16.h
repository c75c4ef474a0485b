//===- Float16.h - f16 and f32 ----------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_FLOAT16_H
#define OPTIMUS_SUPPORT_FLOAT16_H

#include <bit>
#include <cstdint>

namespace optimus_support {

/// The number that 16 bits are as IEEE's binary16: a sign, 5 bits of exponent
/// and 10 of fraction. NaN keeps its sign and fraction.
constexpr float fromFloat16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t rest = uint32_t(bits & 0x7FFF) << 13;
  if (rest >= 0x7C00u << 13) // infinity or NaN
    return std::bit_cast<float>(sign | 0x7F800000u | rest);
  // With f16's exponents in the place of f32's, the number is 2^112 times too
  // small; so what is subnormal there becomes normal, exactly.
  const float magnitude = std::bit_cast<float>(rest) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// The nearest f16, of two the even one; infinite from 65520 on. NaN stays NaN,
/// with its sign.
constexpr uint16_t toFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return sign | 0x7E00 | static_cast<uint16_t>(magnitude >> 13 & 0x3FF);
  if (magnitude >= 0x47800000) // 65536
    return sign | 0x7C00;
  if (magnitude < 0x38800000) { // 2^-14: subnormal, in steps of 2^-24
    // The last place of 0.5 is 2^-24, so the sum is rounded there.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint32_t>(sum) - 0x3F000000);
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_FLOAT16_H
