//===- ToyModel.c - A model library written by hand -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bigram model, logits[t] = W[token[t]] + b, as the compiler would lay it
// out on a mesh row:R: the batch and the rows of W are cut over `row`, b is
// whole everywhere. It uses every function of optrt_api but attention and
// lets the runtime be tested without the compiler.
//
// TOY_RANKS  R. Extents that R does not divide are padded.
// TOY_FAULT  one of the faults below, for the tests of error messages.
//
//===----------------------------------------------------------------------===//

#include "optimus-support/model_abi.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOY_FAULT_NONE 0
#define TOY_FAULT_ABI 1      // was compiled for another interface
#define TOY_FAULT_FEATURE 2  // needs a feature that no processor has
#define TOY_FAULT_TRAFFIC 3  // communicates otherwise than it says
#define TOY_FAULT_RANK 4     // one rank fails in its third step
#define TOY_FAULT_GRADIENT 5 // the gradient of b is wrong
#define TOY_FAULT_SOURCE 6   // another program, with the same parameters
#define TOY_FAULT_STALL 7    // one rank sleeps for ever in its third step
#define TOY_FAULT_ROUNDING 8 // does not say how far gradients may be off

#ifndef TOY_FAULT
#define TOY_FAULT TOY_FAULT_NONE
#endif

enum {
  kRanks = TOY_RANKS,
  kBatch = 4,
  kSequence = 8,
  kVocabulary = 256,
  kLocalBatch = (kBatch + kRanks - 1) / kRanks,
  kLocalRows = (kVocabulary + kRanks - 1) / kRanks,
  kPaddedRows = kLocalRows * kRanks,
  kTokens = kLocalBatch * kSequence,
};

static const optrt_api *api;

// The arena, in floats. Everything is a multiple of 16 floats.
enum {
  kTable = 0,                                          // [padded, V]
  kOneHot = kTable + kPaddedRows * kVocabulary,        // [tokens, padded]
  kLogits = kOneHot + kTokens * kPaddedRows,           // [tokens, V]
  kLosses = kLogits + kTokens * kVocabulary,           // [tokens], padded
  kTableGrad = kLosses + (kTokens + 15) / 16 * 16,     // [padded, V]
  kShardGrad = kTableGrad + kPaddedRows * kVocabulary, // [local, V]
  kBiasGrad = kShardGrad + kLocalRows * kVocabulary,   // [V]
  kScalars = kBiasGrad + kVocabulary,                  // loss, count, norm^2
  kArenaFloats = kScalars + 16,
};

#define TRY(call)                                                              \
  do {                                                                         \
    if (call)                                                                  \
      return 1;                                                                \
  } while (0)

static int32_t collective(optrt_rank *rank, uint32_t command, int32_t kind,
                          int64_t count, const float *src, float *dst) {
  int64_t srcLd = kind == OPTRT_REDUCE_SCATTER ? count * kRanks : count;
  int64_t dstLd = kind == OPTRT_ALL_GATHER ? count * kRanks : count;
  optrt_collective_desc desc = {kind, OPTRT_SUM, 0, 0, 1, count, srcLd, dstLd};
  TRY(api->collective_start(rank, command, &desc, src, dst));
  return api->collective_wait(rank, command);
}

// args: tokens, one-hot rows.
static void oneHotRows(int64_t begin, int64_t end, void *const *args) {
  const int32_t *tokens = args[0];
  float *rows = args[1];
  for (int64_t t = begin; t != end; ++t)
    rows[t * kPaddedRows + tokens[t]] = 1.0f;
}

// args: targets, logits (become their gradient), losses. A token that is not
// real has neither loss nor gradient.
static void crossEntropyRows(int64_t begin, int64_t end, void *const *args) {
  const int32_t *targets = args[0];
  float *losses = args[2];
  for (int64_t t = begin; t != end; ++t) {
    float *row = (float *)args[1] + t * kVocabulary;
    if (targets[t] < 0) {
      memset(row, 0, kVocabulary * sizeof(float));
      losses[t] = 0;
      continue;
    }
    float largest = row[0], sum = 0;
    for (int i = 1; i != kVocabulary; ++i)
      largest = row[i] > largest ? row[i] : largest;
    for (int i = 0; i != kVocabulary; ++i)
      sum += expf(row[i] - largest);
    losses[t] = largest + logf(sum) - row[targets[t]];
    for (int i = 0; i != kVocabulary; ++i)
      row[i] = expf(row[i] - largest) / sum;
    row[targets[t]] -= 1.0f;
  }
}

// Loss, count and logits' gradient of the batch.
static int32_t forward(optrt_rank *rank, float *arena, float *shard,
                       float *bias, int32_t *tokens, int32_t *targets,
                       float *lossSum, float *realCount) {
  TRY(collective(rank, 0, OPTRT_ALL_GATHER, kLocalRows * kVocabulary, shard,
                 arena + kTable));
  optrt_copy_desc zero = {kTokens, kPaddedRows, kPaddedRows, kPaddedRows};
  TRY(api->copy(rank, 1, &zero, NULL, arena + kOneHot));
  optrt_launch_desc oneHot = {"one_hot", kTokens, 8};
  void *oneHotArgs[] = {tokens, arena + kOneHot};
  TRY(api->launch(rank, 2, &oneHot, oneHotRows, oneHotArgs));
  optrt_gemm_desc gemm = {.m = kTokens,
                          .n = kVocabulary,
                          .k = kPaddedRows,
                          .lda = kPaddedRows,
                          .ldb = kVocabulary,
                          .ldc = kVocabulary,
                          .has_bias = 1,
                          .weight = OPTRT_WEIGHT_B};
  TRY(api->gemm(rank, 3, &gemm, arena + kOneHot, arena + kTable,
                arena + kLogits, bias, NULL));
  optrt_launch_desc loss = {"cross_entropy", kTokens, 8};
  void *lossArgs[] = {targets, arena + kLogits, arena + kLosses};
  TRY(api->launch(rank, 4, &loss, crossEntropyRows, lossArgs));

  float *scalars = arena + kScalars;
  scalars[0] = scalars[1] = 0;
  for (int t = 0; t != kTokens; ++t) {
    scalars[0] += arena[kLosses + t];
    scalars[1] += targets[t] >= 0;
  }
  TRY(collective(rank, 5, OPTRT_ALL_REDUCE, 2, scalars, scalars));
  *lossSum = scalars[0];
  *realCount = scalars[1];
  return 0;
}

// The complete gradients, of W's shard and of b.
static int32_t backward(optrt_rank *rank, float *arena, float *shardGrad,
                        float *biasGrad) {
  optrt_gemm_desc gemm = {.m = kPaddedRows,
                          .n = kVocabulary,
                          .k = kTokens,
                          .lda = kPaddedRows,
                          .ldb = kVocabulary,
                          .ldc = kVocabulary,
                          .trans_a = 1};
  TRY(api->gemm(rank, 6, &gemm, arena + kOneHot, arena + kLogits,
                arena + kTableGrad, NULL, NULL));
  TRY(collective(rank, 7, OPTRT_REDUCE_SCATTER, kLocalRows * kVocabulary,
                 arena + kTableGrad, shardGrad));
  memset(biasGrad, 0, kVocabulary * sizeof(float));
  for (int t = 0; t != kTokens; ++t)
    for (int i = 0; i != kVocabulary; ++i)
      biasGrad[i] += arena[kLogits + t * kVocabulary + i];
#if TOY_FAULT == TOY_FAULT_GRADIENT
  biasGrad[7] += 0.5f;
#endif
  return collective(rank, 8, OPTRT_ALL_REDUCE, kVocabulary, biasGrad, biasGrad);
}

// scalars: lr, weight_decay, clip, beta1, beta2, epsilon, beta1_power,
// beta2_power.
static void adamw(float *param, float *m, float *v, const float *grad,
                  int64_t count, float scale, int decay,
                  float *const *scalars) {
  float lr = *scalars[0], beta1 = *scalars[3], beta2 = *scalars[4];
  for (int64_t i = 0; i != count; ++i) {
    float g = grad[i] * scale;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    float mean = m[i] / (1 - *scalars[6]);
    float variance = v[i] / (1 - *scalars[7]);
    float update = mean / (sqrtf(variance) + *scalars[5]);
    if (decay)
      update += *scalars[1] * param[i];
    param[i] -= lr * update;
  }
}

static int32_t trainStep(optrt_rank *rank, void *memory, void *const *args) {
  float *arena = memory;
#if TOY_FAULT == TOY_FAULT_RANK
  static int steps = 0;
  if (api->axis_index(rank, 0) == kRanks - 1 && ++steps == 3) {
    optrt_collective_desc wrong = {99, OPTRT_SUM, 0, 0, 1, 1, 1, 1};
    TRY(api->collective_start(rank, 41, &wrong, arena, arena));
  }
#endif
#if TOY_FAULT == TOY_FAULT_STALL
  static int steps = 0;
  if (api->axis_index(rank, 0) == kRanks - 1 && ++steps == 3)
    while (1)
      sleep(1);
#endif
  float *lossSum = args[16], *realCount = args[17], *gradNorm = args[18];
  float *const *scalars = (float *const *)args + 8;
  TRY(forward(rank, arena, args[0], args[1], args[6], args[7], lossSum,
              realCount));
  float *shardGrad = arena + kShardGrad, *biasGrad = arena + kBiasGrad;
  TRY(backward(rank, arena, shardGrad, biasGrad));

  // b is on every rank and counts once.
  float *squares = arena + kScalars + 2;
  *squares = 0;
  for (int i = 0; i != kLocalRows * kVocabulary; ++i)
    *squares += shardGrad[i] * shardGrad[i];
  if (api->axis_index(rank, 0) == 0)
    for (int i = 0; i != kVocabulary; ++i)
      *squares += biasGrad[i] * biasGrad[i];
  TRY(collective(rank, 9, OPTRT_ALL_REDUCE, 1, squares, squares));
  *gradNorm = sqrtf(*squares) / *realCount;
  float clip = *scalars[2];
  float scale = (*gradNorm > clip ? clip / *gradNorm : 1.0f) / *realCount;

  adamw(args[0], args[2], args[4], shardGrad, kLocalRows * kVocabulary, scale,
        1, scalars);
  adamw(args[1], args[3], args[5], biasGrad, kVocabulary, scale, 0, scalars);
  return 0;
}

static int32_t evalStep(optrt_rank *rank, void *memory, void *const *args) {
  return forward(rank, memory, args[0], args[1], args[2], args[3], args[4],
                 args[5]);
}

static int32_t gradStep(optrt_rank *rank, void *memory, void *const *args) {
  TRY(forward(rank, memory, args[0], args[1], args[2], args[3], args[6],
              args[7]));
  return backward(rank, memory, args[4], args[5]);
}

static const optimus_function functions[] = {{"train_step", trainStep},
                                             {"eval_step", evalStep},
                                             {"grad_step", gradStep}};
static char manifest[16384];
static optimus_model model = {OPTRT_ABI_VERSION, manifest, 0, 3, functions};

#include "ToyManifest.h"

static void writeManifest(void) {
  char *to = manifest;
  char *end = manifest + sizeof(manifest);
  const char *features =
      TOY_FAULT == TOY_FAULT_FEATURE ? "\"avx512nosuch\", \"sse2\"" : "";
  WRITE("{\"format\": 2, \"compiler\": \"written by hand\", "
        "\"source_hash\": \"00000000000000%02x\", "
        "\"model_hash\": \"0123456789abcdef\", "
        "\"target\": {\"cpu\": \"generic\", \"features\": [%s]}, "
        "\"mesh\": [{\"axis\": \"row\", \"size\": %d}], "
        "\"strategy\": \"by hand\", "
        "\"model\": {\"batch\": %d, \"sequence\": %d, \"vocabulary\": %d}, "
        "\"optimizer\": \"adamw\", "
        "\"dimensions\": [{\"name\": \"vocabulary\", \"size\": %d, "
        "\"padded\": %d, \"axes\": [\"row\"]}, {\"name\": \"batch\", "
        "\"size\": %d, \"padded\": %d, \"axes\": [\"row\"]}], "
        "\"buffers\": [",
        kRanks + 16 * (TOY_FAULT == TOY_FAULT_SOURCE), features, kRanks, kBatch,
        kSequence, kVocabulary, kVocabulary, kPaddedRows, kBatch,
        kLocalBatch * kRanks);
  to = writeBuffers(to, end);
  WRITE("], \"functions\": [");

  // By the rule of docs/manifest.md.
  long long others = kRanks - 1;
  long long table = others * kPaddedRows * kVocabulary * 4;
  long long forwardBytes = table + 2 * others * 8;
  if (TOY_FAULT == TOY_FAULT_TRAFFIC)
    forwardBytes += 4;
  long long backwardBytes = table + 2 * others * kVocabulary * 4;
  long long trainBytes = forwardBytes + backwardBytes + 2 * others * 4;
  to = writeFunction(to, end, "train_step", writeTrainArgs, 42, trainBytes, 5);
  WRITE(", ");
  to = writeFunction(to, end, "eval_step", writeEvalArgs, 6, forwardBytes, 2);
  WRITE(", ");
  to = writeFunction(to, end, "grad_step", writeGradArgs, 9,
                     forwardBytes + backwardBytes, 4);
  WRITE("]}");
  model.manifest_size = (uint64_t)(to - manifest);
}

__attribute__((visibility("default"))) const optimus_model *
optimus_model_query(uint32_t version, const optrt_api *table) {
  if (version != OPTRT_ABI_VERSION || TOY_FAULT == TOY_FAULT_ABI)
    return NULL;
  api = table;
  writeManifest();
  return &model;
}
