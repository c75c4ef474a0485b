//===- NarrowRows.cpp - Rows of bf16 as f32, and back ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowRows.h"

#include "optimus-support/BFloat16.h"

#include <cstring>

using namespace optrt;
using optimus_support::fromBFloat16;
using optimus_support::toBFloat16;

OPTRT_VERSIONS void optrt::widenRows(const uint16_t *from, int64_t ld,
                                     int64_t rows, int64_t cols, float *to) {
  for (int64_t row = 0; row < rows; ++row, from += ld, to += cols)
    for (int64_t i = 0; i < cols; ++i)
      to[i] = fromBFloat16(from[i]);
}

OPTRT_VERSIONS void optrt::widenPairs(const uint32_t *from, bool second,
                                      int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] =
        fromBFloat16(static_cast<uint16_t>(second ? from[i] >> 16 : from[i]));
}

OPTRT_VERSIONS void optrt::narrowRows(const float *from, int64_t rows,
                                      int64_t cols, uint16_t *to, int64_t ld) {
  for (int64_t row = 0; row < rows; ++row, from += cols, to += ld)
    for (int64_t i = 0; i < cols; ++i)
      to[i] = toBFloat16(from[i]);
}

OPTRT_VERSIONS static void addElements(const float *from, int64_t count,
                                       float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
}

OPTRT_VERSIONS static void addElements(const uint16_t *from, int64_t count,
                                       float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += fromBFloat16(from[i]);
}

OPTRT_VERSIONS static void multiplyElements(const float *from, int64_t count,
                                            float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] *= from[i];
}

OPTRT_VERSIONS static void multiplyElements(const uint16_t *from, int64_t count,
                                            float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] *= fromBFloat16(from[i]);
}

NarrowMatrix NarrowMatrix::at(int64_t row, int64_t col) const {
  NarrowMatrix part = *this;
  if (start)
    part.start = static_cast<const char *>(start) +
                 (row * ld + col) * optimus_support::elementBytes(type);
  return part;
}

void optrt::addRow(NarrowMatrix from, int64_t count, float *to) {
  if (from.isNarrow())
    addElements(static_cast<const uint16_t *>(from.start), count, to);
  else
    addElements(static_cast<const float *>(from.start), count, to);
}

void optrt::multiplyRow(NarrowMatrix from, int64_t count, float *to) {
  if (from.isNarrow())
    multiplyElements(static_cast<const uint16_t *>(from.start), count, to);
  else
    multiplyElements(static_cast<const float *>(from.start), count, to);
}

void optrt::storeRow(const float *from, int64_t count, NarrowMatrix to) {
  void *start = const_cast<void *>(to.start);
  if (to.isNarrow())
    narrowRows(from, /*rows=*/1, count, static_cast<uint16_t *>(start), to.ld);
  else
    std::memcpy(start, from, count * sizeof(float));
}
