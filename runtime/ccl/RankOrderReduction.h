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

#include "optimus-support/model_abi.h"

#include <algorithm>
#include <cstddef>

namespace optrt {

/// Elements that are reduced at a time: small enough for the first-level
/// cache, so that a destination may be one of the sources.
constexpr std::size_t kReductionBlock = 512;

/// acc[i] = op(acc[i], x[i]); the maximum keeps a NaN of either side, so that
/// a diverged step shows.
inline void accumulate(int reduction, float *__restrict acc,
                       const float *__restrict x, std::size_t count) {
  if (reduction == OPTRT_SUM) {
    for (std::size_t i = 0; i != count; ++i)
      acc[i] = acc[i] + x[i];
    return;
  }
  for (std::size_t i = 0; i != count; ++i)
    acc[i] = (x[i] > acc[i] || x[i] != x[i]) ? x[i] : acc[i];
}

/// Reduces count <= kReductionBlock elements of n ranks, in rank order, into
/// `result`, which overlaps no source. source(r) gives rank r's elements.
template <typename SourceFn>
void reduceBlock(int reduction, int n, SourceFn source, float *result,
                 std::size_t count) {
  const float *first = source(0);
  std::copy(first, first + count, result);
  for (int r = 1; r != n; ++r)
    accumulate(reduction, result, source(r), count);
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_RANKORDERREDUCTION_H
