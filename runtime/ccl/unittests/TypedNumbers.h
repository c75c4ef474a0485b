//===- TypedNumbers.h - What tests of collectives move ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_UNITTESTS_TYPEDNUMBERS_H
#define OPTIMUS_RUNTIME_CCL_UNITTESTS_TYPEDNUMBERS_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace optrt {

/// A number's bits in a narrow element type, and the number of such bits.
inline uint16_t narrowed(int32_t type, float value) {
  return type == OPTRT_BF16 ? optimus_support::toBFloat16(value)
                            : optimus_support::toFloat16(value);
}
inline float widened(int32_t type, uint16_t bits) {
  return type == OPTRT_BF16 ? optimus_support::fromBFloat16(bits)
                            : optimus_support::fromFloat16(bits);
}

/// A number as an element type has it.
inline float rounded(int32_t type, float value) {
  return type == OPTRT_F32 ? value : widened(type, narrowed(type, value));
}

/// Numbers of an element type in memory.
class Numbers {
public:
  void assign(int32_t newType, int64_t count, float value) {
    type = newType;
    bytes.resize(count * (type == OPTRT_F32 ? 4 : 2));
    for (int64_t i = 0; i != count; ++i)
      set(i, value);
  }
  float operator[](int64_t i) const {
    if (type == OPTRT_F32) {
      float value;
      std::memcpy(&value, &bytes[i * 4], 4);
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, &bytes[i * 2], 2);
    return widened(type, bits);
  }
  void set(int64_t i, float value) {
    if (type == OPTRT_F32) {
      std::memcpy(&bytes[i * 4], &value, 4);
      return;
    }
    const uint16_t bits = narrowed(type, value);
    std::memcpy(&bytes[i * 2], &bits, 2);
  }
  void *data() { return bytes.data(); }

private:
  int32_t type = OPTRT_F32;
  std::vector<std::byte> bytes;
};

/// A number that depends on its holder and its place. The magnitudes differ by
/// up to 2^20, so that a sum in any other order rounds differently. f16 has
/// them as well, but not sums of the largest; so all are smaller there.
inline float element(int rank, int64_t row, int64_t column) {
  uint32_t h = uint32_t(rank) * 73856093u ^ uint32_t(row) * 19349663u ^
               uint32_t(column) * 83492791u;
  h = (h ^ h >> 16) * 0x45d9f3bu;
  h ^= h >> 16;
  float mantissa = static_cast<float>(h >> 8) / (1 << 23) - 1.0f;
  return mantissa * static_cast<float>(1 << h % 20);
}
inline float element(int32_t type, int rank, int64_t row, int64_t column) {
  return rounded(type, element(rank, row, column) *
                           (type == OPTRT_F16 ? 0x1p-8f : 1.0f));
}

/// A number that every type has.
inline constexpr float kUntouched = -12288.0f;

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_UNITTESTS_TYPEDNUMBERS_H
