//===- WeightTypes.h - Element types of weights -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTTYPES_H
#define OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTTYPES_H

#include "optimus-support/ElementType.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace optrt {

/// By safetensors' name: F32, BF16 or F16, whose every value is one of F32;
/// nothing for others.
std::optional<optimus_support::ElementType>
findWeightType(std::string_view name);

/// The inverse.
const char *nameOfWeightType(optimus_support::ElementType type);

/// Whether a number stays finite in the type.
bool fits(optimus_support::ElementType type, float number);

/// Little-endian elements at any address, exactly as F32. `from` has as many.
void widen(optimus_support::ElementType type, std::span<const std::byte> from,
           std::span<float> to);

/// The inverse, rounded to the nearest, ties to even. Beyond the type's largest
/// number lies infinity.
void narrow(optimus_support::ElementType type, std::span<const float> from,
            std::span<std::byte> to);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTTYPES_H
