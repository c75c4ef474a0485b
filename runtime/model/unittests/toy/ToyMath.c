//===- ToyMath.c - What the model written by hand computes with ---*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyMath.h"

#include <stddef.h>
#include <stdint.h>

static const double kLog2 = 0.693147180559945309417;

typedef union {
  double number;
  uint64_t bits;
} toyBits;

float toyExp(float x) {
  if (x < -104)
    return 0;
  if (x > 89)
    return __builtin_inff();
  // exp(x) = 2^k exp(r) with |r| <= log(2)/2, of which 12 terms of the series
  // are exact to 2^-50.
  int64_t k = (int64_t)(x / kLog2 + (x < 0 ? -0.5 : 0.5));
  double r = x - k * kLog2, sum = 1;
  for (int i = 12; i != 0; --i)
    sum = 1 + sum * r / i;
  toyBits power = {.bits = (uint64_t)(k + 1023) << 52};
  return (float)(sum * power.number);
}

float toyLog(float x) {
  // x = 2^k m with m in [1, 2), and log(m) = 2 artanh((m - 1) / (m + 1)), whose
  // series of powers of t <= 1/3 ends at 2^-50.
  toyBits m = {.number = x};
  int64_t k = (int64_t)(m.bits >> 52) - 1023;
  m.bits = (m.bits & 0xFFFFFFFFFFFFFull) | (uint64_t)1023 << 52;
  double t = (m.number - 1) / (m.number + 1), sum = 0;
  for (int i = 31; i > 0; i -= 2)
    sum = sum * t * t + 1.0 / i;
  return (float)(k * kLog2 + 2 * t * sum);
}

// Compilers call these of their own accord. The empty statement keeps them from
// finding a call of memset in memset.

__attribute__((visibility("hidden"))) void *memset(void *to, int value,
                                                   size_t bytes) {
  for (size_t i = 0; i != bytes; ++i) {
    ((char *)to)[i] = (char)value;
    __asm__ volatile("");
  }
  return to;
}

__attribute__((visibility("hidden"))) void *
memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  for (size_t i = 0; i != bytes; ++i) {
    ((char *)to)[i] = ((const char *)from)[i];
    __asm__ volatile("");
  }
  return to;
}
