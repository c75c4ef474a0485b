//===- Sizes.h - Bounds of sizes, and arithmetic that keeps them -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A size stated by a file may be any 64-bit number, and so may sizes derived
// from it. Whoever reads such numbers computes with CheckedSize and compares
// with a bound; what has passed may be computed with as it is.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_SIZES_H
#define OPTIMUS_SUPPORT_SIZES_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace optimus_support {

/// Elements of a tensor, whole or not, with padding: what the random generator
/// can number.
inline constexpr int64_t kMaxElements = int64_t(1) << 48;
/// Bytes of an arena, and of anything that lies in memory at one time.
inline constexpr int64_t kMaxBytes = int64_t(1) << 52;
/// Dimensions of a tensor.
inline constexpr int64_t kMaxDims = 16;
/// Lanes of a table: programs that run side by side.
inline constexpr int64_t kMaxLanes = int64_t(1) << 12;
/// Ranks of a mesh.
inline constexpr int64_t kMaxRanks = int64_t(1) << 16;

/// A sum or product of sizes, or the fact that it does not fit 64 bits.
class CheckedSize {
public:
  constexpr CheckedSize(int64_t value) : value(value) {}

  /// Of no factors, 1.
  static constexpr CheckedSize product(std::span<const int64_t> factors) {
    CheckedSize result = 1;
    for (int64_t factor : factors)
      result = result * factor;
    return result;
  }

  /// Nothing where it does not fit.
  constexpr std::optional<int64_t> get() const { return value; }
  /// Whether it is from 0 to `most`.
  constexpr bool isAtMost(int64_t most) const {
    return value && *value >= 0 && *value <= most;
  }
  /// As in a message: "12", or "more than 2^63".
  std::string toString() const {
    return value ? std::to_string(*value) : "more than 2^63";
  }

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    int64_t sum = 0;
    if (!a.value || !b.value || __builtin_add_overflow(*a.value, *b.value, &sum))
      return {};
    return sum;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    int64_t product = 0;
    if (!a.value || !b.value ||
        __builtin_mul_overflow(*a.value, *b.value, &product))
      return {};
    return product;
  }

private:
  constexpr CheckedSize() = default;

  std::optional<int64_t> value;
};

/// Where a matrix [rows, cols] ends whose rows begin `ld` apart, counted from
/// its first element.
inline constexpr CheckedSize matrixExtent(CheckedSize rows, CheckedSize cols,
                                          CheckedSize ld) {
  return (rows + -1) * ld + cols;
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_SIZES_H
