//===- NarrowRows.h - Rows of bf16 as f32, and back -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_NARROWROWS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_NARROWROWS_H

#include "optimus-support/ElementType.h"

#include <cstdint>

// Conversions are loops over integers, which wider vectors do faster; the
// program picks a version when it starts.
#if defined(__x86_64__) && defined(__gnu_linux__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPTRT_VERSIONS                                                         \
  __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define OPTRT_VERSIONS
#endif

namespace optrt {

/// Rows of bf16 that begin `ld` elements apart, as f32 without gaps: exactly.
void widenRows(const uint16_t *from, int64_t ld, int64_t rows, int64_t cols,
               float *to);

/// The first elements of pairs of bf16, or with `second` the others, as f32.
void widenPairs(const uint32_t *from, bool second, int64_t count, float *to);

/// Rows of f32 without gaps as rows of bf16 that begin `ld` elements apart, each
/// element rounded to the nearest, half-way to even.
void narrowRows(const float *from, int64_t rows, int64_t cols, uint16_t *to,
                int64_t ld);

/// A matrix in memory, of f32 or bf16.
struct NarrowMatrix {
  const void *start = nullptr;
  int64_t ld = 0;
  optimus_support::ElementType type = optimus_support::ElementType::F32;

  bool isNarrow() const { return type == optimus_support::ElementType::BF16; }
  /// The part of it that begins at [row, col].
  NarrowMatrix at(int64_t row, int64_t col) const;
};

/// to[i] += row 0 of `from`, and to[i] *= row 0.
void addRow(NarrowMatrix from, int64_t count, float *to);
void multiplyRow(NarrowMatrix from, int64_t count, float *to);

/// Row 0 of `to` becomes so many elements of `from`, rounded if it is narrow.
void storeRow(const float *from, int64_t count, NarrowMatrix to);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_NARROWROWS_H
