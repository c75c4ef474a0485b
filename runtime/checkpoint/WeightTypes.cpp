//===- WeightTypes.cpp - Element types of weights -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WeightTypes.h"

#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <cmath>
#include <cstdint>
#include <cstring>

using namespace optrt;
using namespace optimus_support;

std::optional<ElementType> optrt::findWeightType(std::string_view name) {
  if (name == "F32")
    return ElementType::F32;
  if (name == "BF16")
    return ElementType::BF16;
  if (name == "F16")
    return ElementType::F16;
  return std::nullopt;
}

const char *optrt::nameOfWeightType(ElementType type) {
  return type == ElementType::BF16  ? "BF16"
         : type == ElementType::F16 ? "F16"
                                    : "F32";
}

bool optrt::fits(ElementType type, float number) {
  const float magnitude = std::abs(number);
  if (type == ElementType::F32)
    return std::isfinite(number);
  // Half a unit in the last place above the largest number, whose last bit is
  // odd: the tie goes up. BF16 keeps 8 bits of 24, F16 11.
  return magnitude < (type == ElementType::BF16 ? 0x1.ffp127f : 0x1.ffep15f);
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

void optrt::widen(ElementType type, std::span<const std::byte> from,
                  std::span<float> to) {
  if (type == ElementType::F32)
    std::memcpy(to.data(), from.data(), to.size_bytes());
  else if (type == ElementType::BF16)
    widenHalves(from, to, fromBFloat16);
  else
    widenHalves(from, to, fromFloat16);
}

template <typename Narrow>
static void narrowToHalves(std::span<const float> from, std::span<std::byte> to,
                           Narrow narrow) {
  for (size_t i = 0; i != from.size(); ++i) {
    const uint16_t bits = narrow(from[i]);
    std::memcpy(to.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
}

void optrt::narrow(ElementType type, std::span<const float> from,
                   std::span<std::byte> to) {
  if (type == ElementType::F32)
    std::memcpy(to.data(), from.data(), from.size_bytes());
  else if (type == ElementType::BF16)
    narrowToHalves(from, to, toBFloat16);
  else
    narrowToHalves(from, to, toFloat16);
}
