//===- RankOrderReduction.h - Sums that do not depend on the back-end -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_RANKORDERREDUCTION_H
#define OPTIMUS_RUNTIME_CCL_RANKORDERREDUCTION_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-support/BFloat16.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/Float16.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace optrt {

/// Elements of 16 bits, which are added up as f32.
struct BFloat16 {
  BFloat16() = default;
  explicit BFloat16(float value) : bits(optimus_support::toBFloat16(value)) {}
  operator float() const { return optimus_support::fromBFloat16(bits); }
  uint16_t bits;
};
struct Float16 {
  Float16() = default;
  explicit Float16(float value) : bits(optimus_support::toFloat16(value)) {}
  operator float() const { return optimus_support::fromFloat16(bits); }
  uint16_t bits;
};

/// Calls `body` with an element of a type, so that it is written once and each
/// loop has one type.
template <typename Body>
auto withElement(int32_t type, Body body) {
  if (type == OPTRT_BF16)
    return body(BFloat16());
  if (type == OPTRT_F16)
    return body(Float16());
  return body(float());
}

/// The same with an integer of its size, for what is only moved.
template <typename Body>
auto withBits(int32_t type, Body body) {
  switch (optimus_support::elementBytes(optimus_support::ElementType(type))) {
  case 1:
    return body(uint8_t());
  case 2:
    return body(uint16_t());
  case 4:
    return body(uint32_t());
  default:
    return body(uint64_t());
  }
}

/// Elements that are reduced at a time: small enough for the first-level
/// cache, so that a destination may be one of the sources.
constexpr std::size_t kReductionBlock = 512;

/// acc[i] = op(acc[i], x[i]); the maximum keeps a NaN of either side, so that
/// a diverged step shows.
template <typename T>
void accumulate(int reduction, float *__restrict acc, const T *__restrict x,
                std::size_t count) {
  if (reduction == OPTRT_SUM) {
    for (std::size_t i = 0; i != count; ++i)
      acc[i] = acc[i] + float(x[i]);
    return;
  }
  for (std::size_t i = 0; i != count; ++i) {
    const float value = x[i];
    acc[i] = (value > acc[i] || value != value) ? value : acc[i];
  }
}

/// Reduces count <= kReductionBlock elements of n ranks, in rank order, into
/// `result`, which overlaps no source but may be the first. source(r) gives rank r's elements.
/// Narrow ones are added up in f32, and their sum is rounded once.
template <typename T, typename SourceFn>
void reduceBlock(int reduction, int n, SourceFn source, T *result,
                 std::size_t count) {
  const T *first = source(0);
  if constexpr (std::is_same_v<T, float>) {
    if (first != result)
      std::copy(first, first + count, result);
    for (int r = 1; r != n; ++r)
      accumulate(reduction, result, source(r), count);
  } else {
    alignas(64) float sums[kReductionBlock];
    std::copy(first, first + count, sums);
    for (int r = 1; r != n; ++r)
      accumulate(reduction, sums, source(r), count);
    for (std::size_t i = 0; i != count; ++i)
      result[i] = T(sums[i]);
  }
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_RANKORDERREDUCTION_H
