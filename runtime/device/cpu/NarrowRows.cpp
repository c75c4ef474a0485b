//===- NarrowRows.cpp - Rows of bf16 as f32, and back ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NarrowRows.h"

#include "optimus-support/BFloat16.h"

using optimus_support::fromBFloat16;
using optimus_support::toBFloat16;

OPTRT_VERSIONS void optrt::widenRows(const uint16_t *from, int64_t ld,
                                     int64_t rows, int64_t cols, float *to) {
  for (int64_t row = 0; row < rows; ++row, from += ld, to += cols)
    for (int64_t i = 0; i < cols; ++i)
      to[i] = fromBFloat16(from[i]);
}

OPTRT_VERSIONS void optrt::narrowRows(const float *from, int64_t rows,
                                      int64_t cols, uint16_t *to, int64_t ld) {
  for (int64_t row = 0; row < rows; ++row, from += cols, to += ld)
    for (int64_t i = 0; i < cols; ++i)
      to[i] = toBFloat16(from[i]);
}
