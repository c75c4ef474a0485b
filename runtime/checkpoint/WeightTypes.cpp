//===- WeightTypes.cpp - Element types of weights -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightTypes.h"

#include <bit>
#include <cstdint>
#include <cstring>

using namespace optrt;

std::optional<WeightType> optrt::findWeightType(std::string_view name) {
  if (name == "F32")
    return WeightType::F32;
  if (name == "BF16")
    return WeightType::BF16;
  if (name == "F16")
    return WeightType::F16;
  return std::nullopt;
}

size_t optrt::bytesOf(WeightType type) {
  return type == WeightType::F32 ? sizeof(float) : sizeof(uint16_t);
}

static float widenBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// F16 has 5 bits of exponent, biased by 15, and 10 of mantissa; F32 has 8,
/// biased by 127, and 23.
static float widenF16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0) { // mantissa * 2^-24, a normal number of F32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

template <typename Widen>
static void widenHalves(std::span<const std::byte> from, std::span<float> to,
                        Widen widen) {
  for (size_t i = 0; i != to.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, from.data() + i * sizeof(bits), sizeof(bits));
    to[i] = widen(bits);
  }
}

void optrt::widen(WeightType type, std::span<const std::byte> from,
                  std::span<float> to) {
  switch (type) {
  case WeightType::F32:
    if (!to.empty())
      std::memcpy(to.data(), from.data(), to.size_bytes());
    return;
  case WeightType::BF16:
    return widenHalves(from, to, widenBF16);
  case WeightType::F16:
    return widenHalves(from, to, widenF16);
  }
}
