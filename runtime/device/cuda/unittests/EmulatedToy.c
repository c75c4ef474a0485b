//===- EmulatedToy.c - Kernels for a fake GPU, written by hand ----*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/emulator_abi.h"

enum { kThreads = 32 };

#define EACH(i, n)                                                             \
  for (int64_t i = (int64_t)optimus_emulated_block() * kThreads +              \
                   optimus_emulated_thread();                                  \
       i < (n); i += (int64_t)optimus_emulated_num_blocks() * kThreads)

static float load(const float *at) {
  optimus_emulated_access(at, 4, 0, 4);
  return *at;
}
static void store(float *at, float value) {
  optimus_emulated_access(at, 4, 1, 4);
  *at = value;
}

// x += number, a scalar.
static void add(void *const *p) {
  const int64_t n = *(const int64_t *)p[0], number = *(const int64_t *)p[2];
  float *x = *(float *const *)p[1];
  EACH(i, n) store(x + i, load(x + i) + (float)number);
}

static void doubleIt(void *const *p) {
  const int64_t n = *(const int64_t *)p[0];
  float *x = *(float *const *)p[1];
  EACH(i, n) store(x + i, 2 * load(x + i));
}

// What two ranks have, to both.
static void sumOfTwo(void *const *p) {
  const int64_t n = *(const int64_t *)p[0];
  float *buffers[4];
  for (int i = 0; i != 4; ++i)
    buffers[i] = *(float *const *)p[1 + i];
  EACH(i, n) {
    const float sum = load(buffers[0] + i) + load(buffers[1] + i);
    store(buffers[2] + i, sum);
    store(buffers[3] + i, sum);
  }
}

// Of four rows.
static void sumRows(void *const *p) {
  const int64_t n = *(const int64_t *)p[0];
  const float *x = *(const float *const *)p[1];
  float *sums = *(float *const *)p[2];
  EACH(i, n) {
    float sum = 0;
    for (int64_t row = 0; row != 4; ++row)
      sum += load(x + row * n + i);
    store(sums + i, sum);
  }
}

// 4088 bytes of parameters: the last is where the sum of two others goes.
static void large(void *const *p) {
  if (optimus_emulated_block() != 0 || optimus_emulated_thread() != 0)
    return;
  int64_t *to = *(int64_t *const *)p[510];
  optimus_emulated_access(to, 8, 1, 8);
  *to = *(const int64_t *)p[0] + *(const int64_t *)p[509];
}

static const optimus_emulated_kernel kernels[] = {
    {"add", add, 3, kThreads},
    {"double_it", doubleIt, 2, kThreads},
    {"sum_of_two", sumOfTwo, 5, kThreads},
    {"sum_rows", sumRows, 3, kThreads},
    {"large", large, 511, kThreads},
};

__attribute__((visibility("default")))
const optimus_emulated_code optimus_emulated_image = {kernels, 0, 5, 0};
