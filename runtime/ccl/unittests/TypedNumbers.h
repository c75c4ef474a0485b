//===- TypedNumbers.h - What tests of collectives move ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_UNITTESTS_TYPEDNUMBERS_H
#define OPTIMUS_RUNTIME_CCL_UNITTESTS_TYPEDNUMBERS_H

#include "../RankOrderReduction.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace optrt {

/// Calls `body` with a number of an element type.
template <typename Body>
auto withNumber(int32_t type, Body body) {
  using optimus_support::ElementType;
  switch (ElementType(type)) {
  case ElementType::F64:
    return body(double());
  case ElementType::I32:
    return body(int32_t());
  case ElementType::I64:
    return body(int64_t());
  case ElementType::I8:
    return body(int8_t());
  default:
    return withElement(type, body);
  }
}

/// A number as an element type has it; integers wrap.
template <typename T>
T toNumber(float value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(value));
  else
    return T(value);
}
inline float rounded(int32_t type, float value) {
  return withNumber(type, [&](auto number) {
    return float(toNumber<decltype(number)>(value));
  });
}

/// Numbers of an element type in memory.
class Numbers {
public:
  void assign(int32_t newType, int64_t count, float value) {
    type = newType;
    each = optimus_support::elementBytes(optimus_support::ElementType(type));
    bytes.resize(count * each);
    for (int64_t i = 0; i != count; ++i)
      set(i, value);
  }
  float operator[](int64_t i) const {
    return withNumber(type, [&](auto number) {
      std::memcpy(&number, &bytes[i * each], each);
      return float(number);
    });
  }
  void set(int64_t i, float value) {
    withNumber(type, [&](auto number) {
      number = toNumber<decltype(number)>(value);
      std::memcpy(&bytes[i * each], &number, each);
    });
  }
  void *data() { return bytes.data(); }

private:
  int32_t type = OPTRT_F32;
  int64_t each = 4;
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
inline constexpr float kUntouched = -77.0f;

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_UNITTESTS_TYPEDNUMBERS_H
