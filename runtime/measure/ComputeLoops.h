//===- ComputeLoops.h - Kernels whose work is known -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops as kernels have them, to be timed: optrt_kernel of two arrays, x and y,
// whose iterations are kLoopElements elements each, unless they say otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_COMPUTELOOPS_H
#define OPTIMUS_RUNTIME_MEASURE_COMPUTELOOPS_H

#include <cstdint>

namespace optrt {

inline constexpr int64_t kLoopElements = 16;

/// y += x: 12 bytes of traffic an element.
void accumulateLoop(int64_t begin, int64_t end, void *const *args);

/// y = the sum of x, kSumElements elements an iteration: nothing but reading.
inline constexpr int64_t kSumElements = 1 << 14;
void sumLoop(int64_t begin, int64_t end, void *const *args);

/// y = the sums of x's columns, x being rows of kLoopWidth elements, args[2] of
/// them; an iteration is kLoopColumns columns.
inline constexpr int64_t kLoopWidth = 768, kLoopColumns = 64;
void columnsLoop(int64_t begin, int64_t end, void *const *args);

/// y = p(x), kPolynomialOps operations of vectors an element: two of each
/// instruction, the load, the store, and multiplications fused with additions.
inline constexpr int kPolynomialOps = 36;
void polynomialLoop(int64_t begin, int64_t end, void *const *args);

/// y = 1 / (1 / (... x)), kDivisions an element.
inline constexpr int kDivisions = 8;
void divisionLoop(int64_t begin, int64_t end, void *const *args);

/// y = y·x + x, one element after the other: 2 operations an element.
void recurrenceLoop(int64_t begin, int64_t end, void *const *args);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_COMPUTELOOPS_H
