//===- ToyManifest.h - What the hand-written model says of itself -*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The buffers and functions of ToyModel.c, which includes this behind its
// constants.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_UNITTESTS_TOYMANIFEST_H
#define OPTIMUS_RUNTIME_CORE_UNITTESTS_TOYMANIFEST_H

// The buffers, in the manifest's order.
enum {
  kTableWeight,
  kTableBias,
  kFirstState, // exp_avg and exp_avg_sq of the table, then of the bias
  kFirstGrad = kFirstState + 4,
  kTokensBuffer = kFirstGrad + 2,
  kTargetsBuffer,
  kFirstScalar, // as adamw() takes them
  kLossSum = kFirstScalar + 8,
  kRealCount,
  kGradNorm,
};

static const char *const scalarNames[] = {
    "lr",    "weight_decay", "clip",        "beta1",
    "beta2", "epsilon",      "beta1_power", "beta2_power"};

// Of logits, of the softmax and of the gradient: at most three sums of 256.
#if TOY_FAULT == TOY_FAULT_ROUNDING
#define ROUNDING ""
#else
#define ROUNDING ", \"rounding\": 28"
#endif

// Appends to the manifest and moves `to` behind it.
#define WRITE(...) to += snprintf(to, (size_t)(end - to), __VA_ARGS__)

static char *writeArg(char *to, char *end, int buffer, const char *access,
                      const char *more) {
  WRITE("%s{\"buffer\": %d, \"access\": \"%s\"%s}", to[-1] == '[' ? "" : ", ",
        buffer, access, more);
  return to;
}

static char *writeParamsAndInputs(char *to, char *end, const char *access,
                                  int states) {
  to = writeArg(to, end, kTableWeight, access, "");
  to = writeArg(to, end, kTableBias, access, "");
  // The moments of both parameters, then the squares' of both.
  for (int i = 0; i != states; ++i)
    to = writeArg(to, end, kFirstState + i % 2 * 2 + i / 2, access, "");
  to = writeArg(to, end, kTokensBuffer, "read", "");
  return writeArg(to, end, kTargetsBuffer, "read", "");
}

static char *writeTrainArgs(char *to, char *end) {
  to = writeParamsAndInputs(to, end, "update", 4);
  for (int i = kFirstScalar; i != kLossSum; ++i)
    to = writeArg(to, end, i, "read", "");
  for (int i = kLossSum; i <= kGradNorm; ++i)
    to = writeArg(to, end, i, "write", "");
  return to;
}

static char *writeEvalArgs(char *to, char *end) {
  to = writeParamsAndInputs(to, end, "read", 0);
  to = writeArg(to, end, kLossSum, "write", "");
  return writeArg(to, end, kRealCount, "write", "");
}

static char *writeGradArgs(char *to, char *end) {
  to = writeParamsAndInputs(to, end, "read", 0);
  to = writeArg(to, end, kFirstGrad, "write", ROUNDING);
  to = writeArg(to, end, kFirstGrad + 1, "write", ROUNDING);
  to = writeArg(to, end, kLossSum, "write", ROUNDING);
  return writeArg(to, end, kRealCount, "write", "");
}

// `before` precedes the parameter's name in the buffer's, and in the file.
static char *writeTensor(char *to, char *end, int param, const char *role,
                         const char *before, const char *more) {
  const char *name = param == kTableWeight ? "table.weight" : "table.bias";
  WRITE("{\"name\": \"%s%s\", \"role\": \"%s\", \"type\": \"f32\", ", before,
        name, role);
  if (param == kTableWeight)
    WRITE("\"shape\": [%d, %d], \"local_shape\": [%d, %d], "
          "\"sharding\": [[\"row\"], []], ",
          kVocabulary, kVocabulary, kLocalRows, kVocabulary);
  else
    WRITE("\"shape\": [%d], \"local_shape\": [%d], \"sharding\": [[]], ",
          kVocabulary, kVocabulary);
  WRITE("%s}, ", more);
  return to;
}

static char *writeParam(char *to, char *end, int param, const char *more) {
  char all[256];
  snprintf(all, sizeof(all),
           "\"lifetime\": \"parameter\", \"saved\": {\"file\": \"model\", "
           "\"name\": \"%s\", \"shape\": %s}, %s",
           param == kTableWeight ? "table.weight" : "table.bias",
           param == kTableWeight ? "[256, 256]" : "[256]", more);
  return writeTensor(to, end, param, "parameter", "", all);
}

static char *writeState(char *to, char *end, int param, const char *role) {
  char before[32], more[256];
  const char *name = param == kTableWeight ? "table.weight" : "table.bias";
  snprintf(before, sizeof(before), "%s:", role);
  snprintf(more, sizeof(more),
           "\"of\": %d, \"lifetime\": \"state\", \"init\": {\"kind\": "
           "\"zeros\"}, \"saved\": {\"file\": \"optimizer\", \"name\": "
           "\"%s.%s\", \"shape\": %s}",
           param, role, name, param == kTableWeight ? "[256, 256]" : "[256]");
  return writeTensor(to, end, param, role, before, more);
}

static char *writeBuffers(char *to, char *end) {
  to = writeParam(to, end, kTableWeight,
                  "\"decay\": true, \"init\": {\"kind\": \"normal\", "
                  "\"stddev\": 0.02, \"stream\": 3}");
  to = writeParam(to, end, kTableBias,
                  "\"decay\": false, \"init\": {\"kind\": \"zeros\"}");
  for (int param = kTableWeight; param <= kTableBias; ++param) {
    to = writeState(to, end, param, "exp_avg");
    to = writeState(to, end, param, "exp_avg_sq");
  }
  to = writeTensor(to, end, kTableWeight, "grad",
                   "grad:", "\"of\": 0, \"lifetime\": \"call\"");
  to = writeTensor(to, end, kTableBias, "grad",
                   "grad:", "\"of\": 1, \"lifetime\": \"call\"");
  for (int i = 0; i != 2; ++i)
    WRITE("{\"name\": \"%s\", \"role\": \"%s\", \"type\": \"i32\", "
          "\"lifetime\": \"call\", \"filled_by\": \"data\", "
          "\"shape\": [%d, %d], \"local_shape\": [%d, %d], "
          "\"sharding\": [[\"row\"], []]}, ",
          i ? "targets" : "tokens", i ? "targets" : "tokens", kBatch, kSequence,
          kLocalBatch, kSequence);
  const char *number = "{\"name\": \"%s\", \"role\": \"%s\", \"type\": "
                       "\"f32\", \"lifetime\": \"call\", \"shape\": [], "
                       "\"local_shape\": [], \"sharding\": []%s}%s";
  for (int i = 0; i != 8; ++i)
    WRITE(number, scalarNames[i], scalarNames[i], ", \"filled_by\": \"host\"",
          ", ");
  WRITE(number, "loss_sum", "loss_sum", "", ", ");
  WRITE(number, "real_count", "real_count", "", ", ");
  WRITE(number, "grad_norm", "grad_norm", "", "");
  return to;
}

static char *writeFunction(char *to, char *end, const char *name,
                           char *(*writeArgs)(char *, char *), int commands,
                           long long bytes, int messages) {
  long long arenaBytes = 4LL * kArenaFloats;
  WRITE("{\"name\": \"%s\", \"args\": [", name);
  to = writeArgs(to, end);
  WRITE("], \"commands\": %d, \"arena_bytes\": %lld, "
        "\"lower_bound_bytes\": %lld, \"peak_bytes\": {\"activation\": %lld}, "
        "\"communication\": [",
        commands, arenaBytes, arenaBytes, arenaBytes);
  if (kRanks > 1)
    WRITE("{\"axis\": \"row\", \"bytes\": %lld, \"messages\": %d}", bytes,
          messages);
  WRITE("]}");
  return to;
}

#endif // OPTIMUS_RUNTIME_CORE_UNITTESTS_TOYMANIFEST_H
