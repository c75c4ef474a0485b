//===- ComputeLoops.cpp - Kernels whose work is known ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeLoops.h"

#include <cstring>

// Kernels of models are compiled for the processor that they run on, and these
// are as fast. What picks a version runs before a sanitizer is ready.
#if defined(__x86_64__) && defined(__gnu_linux__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPTIMUS_FOR_EVERY_PROCESSOR                                            \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OPTIMUS_FOR_EVERY_PROCESSOR
#endif

namespace optrt {

using Vector =
    float __attribute__((vector_size(kLoopElements * sizeof(float))));

OPTIMUS_FOR_EVERY_PROCESSOR
void accumulateLoop(int64_t begin, int64_t end, void *const *args) {
  const char *x = static_cast<const char *>(args[0]);
  char *y = static_cast<char *>(args[1]);
  for (int64_t i = begin; i != end; ++i) {
    Vector from, to;
    std::memcpy(&from, x + i * sizeof(Vector), sizeof(Vector));
    std::memcpy(&to, y + i * sizeof(Vector), sizeof(Vector));
    to += from;
    std::memcpy(y + i * sizeof(Vector), &to, sizeof(Vector));
  }
}

OPTIMUS_FOR_EVERY_PROCESSOR
void sumLoop(int64_t begin, int64_t end, void *const *args) {
  constexpr int64_t kSums = 8;
  const char *x = static_cast<const char *>(args[0]);
  float *y = static_cast<float *>(args[1]);
  for (int64_t i = begin; i != end; ++i) {
    Vector sums[kSums] = {};
    for (int64_t j = 0; j != kSumElements / kLoopElements; ++j) {
      Vector from;
      std::memcpy(&from,
                  x + i * kSumElements * sizeof(float) + j * sizeof(Vector),
                  sizeof(Vector));
      sums[j % kSums] += from;
    }
    for (int64_t j = 1; j != kSums; ++j)
      sums[0] += sums[j];
    y[i] = sums[0][0];
  }
}

OPTIMUS_FOR_EVERY_PROCESSOR
void columnsLoop(int64_t begin, int64_t end, void *const *args) {
  using Columns =
      float __attribute__((vector_size(kLoopColumns * sizeof(float))));
  const char *x = static_cast<const char *>(args[0]);
  char *y = static_cast<char *>(args[1]);
  const int64_t rows = *static_cast<const int64_t *>(args[2]);
  for (int64_t i = begin; i != end; ++i) {
    Columns sum{};
    for (int64_t row = 0; row != rows; ++row) {
      Columns from;
      std::memcpy(&from,
                  x + row * kLoopWidth * sizeof(float) + i * sizeof(Columns),
                  sizeof(Columns));
      sum += from;
    }
    std::memcpy(y + i * sizeof(Columns), &sum, sizeof(Columns));
  }
}

OPTIMUS_FOR_EVERY_PROCESSOR
void polynomialLoop(int64_t begin, int64_t end, void *const *args) {
  const char *x = static_cast<const char *>(args[0]);
  char *y = static_cast<char *>(args[1]);
  for (int64_t i = begin; i != end; ++i) {
    Vector from;
    std::memcpy(&from, x + i * sizeof(Vector), sizeof(Vector));
    Vector sum = from;
    // Beside the load and the store.
    for (int term = 0; term != kPolynomialOps / 2 - 2; ++term)
      sum = sum * from + 0.5f;
    std::memcpy(y + i * sizeof(Vector), &sum, sizeof(Vector));
  }
}

OPTIMUS_FOR_EVERY_PROCESSOR
void divisionLoop(int64_t begin, int64_t end, void *const *args) {
  const char *x = static_cast<const char *>(args[0]);
  char *y = static_cast<char *>(args[1]);
  for (int64_t i = begin; i != end; ++i) {
    Vector value;
    std::memcpy(&value, x + i * sizeof(Vector), sizeof(Vector));
    for (int division = 0; division != kDivisions; ++division)
      value = 1.5f / value;
    std::memcpy(y + i * sizeof(Vector), &value, sizeof(Vector));
  }
}

void recurrenceLoop(int64_t begin, int64_t end, void *const *args) {
  const float *x = static_cast<const float *>(args[0]);
  float *y = static_cast<float *>(args[1]);
  float sum = 0;
  for (int64_t i = begin * kLoopElements; i != end * kLoopElements; ++i)
    sum = sum * 0.5f + x[i];
  y[begin] = sum;
}

} // namespace optrt
