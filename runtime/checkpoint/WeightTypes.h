//===- WeightTypes.h - Element types of weights -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTTYPES_H
#define OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTTYPES_H

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace optrt {

/// The types whose every value is one of F32.
enum class WeightType { F32, BF16, F16 };

/// By safetensors' name; nothing for a type that does not fit into F32.
std::optional<WeightType> findWeightType(std::string_view name);
size_t bytesOf(WeightType type);

/// Little-endian elements at any address, exactly as F32. `from` has as many.
void widen(WeightType type, std::span<const std::byte> from,
           std::span<float> to);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTTYPES_H
