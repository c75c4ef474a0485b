//===- ToyKernels.c - The kernels of the model written by hand ----*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Each is given its buffers, then its scalars: integers are int64_t, real
// numbers float. Sums add in the order of the elements.
//
//===----------------------------------------------------------------------===//

#include "ToyKernels.h"

#include "ToyMath.h"

#include <stddef.h>

enum { kVocabulary = 256 };

// tokens, one-hot rows; the length of a row, which has a place for every token.
static void oneHot(int64_t begin, int64_t end, void *const *args) {
  const int32_t *tokens = args[0];
  float *rows = args[1];
  int64_t length = *(const int64_t *)args[2];
  for (int64_t t = begin; t != end; ++t)
    if (tokens[t] >= 0 && tokens[t] < kVocabulary)
      rows[t * length + tokens[t]] = 1.0f;
}

// targets, logits (become their gradient), losses. A token that is not real has
// neither loss nor gradient.
static void crossEntropy(int64_t begin, int64_t end, void *const *args) {
  const int32_t *targets = args[0];
  float *losses = args[2];
  for (int64_t t = begin; t != end; ++t) {
    float *row = (float *)args[1] + t * kVocabulary;
    if (targets[t] < 0 || targets[t] >= kVocabulary) {
      for (int i = 0; i != kVocabulary; ++i)
        row[i] = 0;
      losses[t] = 0;
      continue;
    }
    float largest = row[0], sum = 0;
    for (int i = 1; i != kVocabulary; ++i)
      largest = row[i] > largest ? row[i] : largest;
    for (int i = 0; i != kVocabulary; ++i)
      sum += toyExp(row[i] - largest);
    losses[t] = largest + toyLog(sum) - row[targets[t]];
    for (int i = 0; i != kVocabulary; ++i)
      row[i] = toyExp(row[i] - largest) / sum;
    row[targets[t]] -= 1.0f;
  }
}

// targets, losses, the sum of these and the number of real tokens; how many
// tokens.
static void sumLosses(int64_t begin, int64_t end, void *const *args) {
  const int32_t *targets = args[0];
  const float *losses = args[1];
  float *sums = args[2];
  int64_t count = *(const int64_t *)args[3];
  sums[0] = sums[1] = 0;
  for (int64_t t = 0; t != count; ++t) {
    sums[0] += losses[t];
    sums[1] += targets[t] >= 0;
  }
}

// rows, the sums of their columns; how many rows. Columns are the iterations.
static void sumColumns(int64_t begin, int64_t end, void *const *args) {
  const float *rows = args[0];
  float *sums = args[1];
  int64_t count = *(const int64_t *)args[2];
  for (int64_t i = begin; i != end; ++i)
    sums[i] = 0;
  for (int64_t t = 0; t != count; ++t)
    for (int64_t i = begin; i != end; ++i)
      sums[i] += rows[t * kVocabulary + i];
}

// gradients of W's shard and of b, the sum of their squares; how many elements
// the shard has, and the rank's index: b counts on the first.
static void sumSquares(int64_t begin, int64_t end, void *const *args) {
  const float *shard = args[0], *bias = args[1];
  float *sum = args[2];
  int64_t count = *(const int64_t *)args[3];
  *sum = 0;
  for (int64_t i = 0; i != count; ++i)
    *sum += shard[i] * shard[i];
  if (*(const int64_t *)args[4] == 0)
    for (int64_t i = 0; i != kVocabulary; ++i)
      *sum += bias[i] * bias[i];
}

// sum of squares, number of real tokens, clip, norm of the mean gradient, scale
// of the gradient.
static void norm(int64_t begin, int64_t end, void *const *args) {
  float squares = *(const float *)args[0], count = *(const float *)args[1],
        clip = *(const float *)args[2];
  float *gradNorm = args[3], *scale = args[4];
  *gradNorm = __builtin_sqrtf(squares) / count;
  *scale = (*gradNorm > clip ? clip / *gradNorm : 1.0f) / count;
}

// parameter, its two moments, gradient, scale, lr, weight_decay, beta1, beta2,
// epsilon, beta1_power, beta2_power; whether it decays.
static void adamw(int64_t begin, int64_t end, void *const *args) {
  float *param = args[0], *m = args[1], *v = args[2];
  const float *grad = args[3];
  float scalars[8];
  for (int i = 0; i != 8; ++i)
    scalars[i] = *(const float *)args[4 + i];
  float scale = scalars[0], lr = scalars[1], decay = scalars[2],
        beta1 = scalars[3], beta2 = scalars[4], epsilon = scalars[5];
  int decays = *(const int64_t *)args[12] != 0;
  for (int64_t i = begin; i != end; ++i) {
    float g = grad[i] * scale;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    float mean = m[i] / (1 - scalars[6]);
    float variance = v[i] / (1 - scalars[7]);
    float update = mean / (__builtin_sqrtf(variance) + epsilon);
    if (decays)
      update += decay * param[i];
    param[i] -= lr * update;
  }
}

// an element; what is added to it.
static void spoil(int64_t begin, int64_t end, void *const *args) {
  *(float *)args[0] += *(const float *)args[1];
}

// nothing: a device of tests fails at its launches.
static void watchStep(int64_t begin, int64_t end, void *const *args) {}

// how far the rank is from the last.
static void stall(int64_t begin, int64_t end, void *const *args) {
  static int steps = 0;
  if (*(const int64_t *)args[0] == 0 && ++steps == 3)
    while (1)
      __asm__ volatile("");
}

// ToyLibrary.c says what each was written for.
const optimus_kernel toyKernels[] = {
    {"one_hot", oneHot, 0, NULL, 0, 0},
    {"cross_entropy", crossEntropy, 0, NULL, 0, 0},
    {"sum_losses", sumLosses, 0, NULL, 0, 0},
    {"sum_columns", sumColumns, 0, NULL, 0, 0},
    {"sum_squares", sumSquares, 0, NULL, 0, 0},
    {"norm", norm, 0, NULL, 0, 0},
    {"adamw", adamw, 0, NULL, 0, 0},
    {"spoil", spoil, 0, NULL, 0, 0},
    {"watch_step", watchStep, 0, NULL, 0, 0},
    {"stall", stall, 0, NULL, 0, 0},
};
const uint32_t toyNumKernels = sizeof(toyKernels) / sizeof(*toyKernels);
