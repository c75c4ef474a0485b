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
  if (type == ElementType::BF16)
    widenHalves(from, to, fromBFloat16);
  else
    widenHalves(from, to, fromFloat16);
}
