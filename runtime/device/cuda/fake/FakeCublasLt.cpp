//===- FakeCublasLt.cpp - cuBLASLt's functions on a fake GPU --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: checks what a product is given as cuBLASLt does, or more strictly.
// As cuBLASLt, it says what it refuses where CUBLASLT_LOG_LEVEL is set.
//
//   OPTIMUS_FAKE_CUBLASLT_WITHOUT=MxNxK   knows no algorithm for this product;
//                                         MxNxK:0: and says so by naming none;
//                                         bias_grad: for none that writes a
//                                         bias's gradient
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"
#include "FakeProduct.h"

#include "optimus-support/Status.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

using namespace optrt;
using namespace std::string_view_literals;
using optimus_support::concat;
using namespace optrt::cuda;
using fake::Product;
using Shape = fake::ProductShape;

#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default"))) LtResult symbol parameters;
OPTRT_CUBLASLT_FUNCTIONS(OPTRT_FAKE_DECLARE)

struct optrt::cuda::LtHandleOpaque {};
struct optrt::cuda::LtPreferenceOpaque {
  uint64_t workspaceBytes = 0;
  uint32_t reductions = 7;                      ///< all
  uint32_t alignment[4] = {256, 256, 256, 256}; ///< of A, B, C and D
};

namespace {
/// What an algorithm was chosen for, in its opaque words.
struct Chosen {
  uint32_t mark, number;
  uint32_t alignment[4];
  uint64_t workspaceBytes;
  int64_t m, n, k;
  /// Of the bias that the heuristic was shown; 1 for none.
  uint32_t biasAlignment;
  uint32_t epilogue;
};
static_assert(sizeof(Chosen) <= sizeof(LtAlgorithm));
constexpr uint32_t kMark = 0x4f70744c;
/// The first algorithm's, and how much more each next one takes, so that
/// whoever gives less is found out. They differ in nothing else.
constexpr uint64_t kWorkspaceBytes = 4096;

uint32_t biasAlignmentOf(const LtOperationOpaque &operation) {
  constexpr uintptr_t kMost = 256;
  const auto bits = reinterpret_cast<uintptr_t>(operation.bias) | kMost;
  return operation.epilogue == kLtNoEpilogue ? 1 : uint32_t(bits & -bits);
}

bool isAligned(const void *address, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

LtResult refuse(LtResult result, const char *why) {
  if (std::getenv("CUBLASLT_LOG_LEVEL"))
    std::fprintf(stderr, "[cublasLt][Error] %s\n", why);
  return result;
}
} // namespace

//===----------------------------------------------------------------------===//
// What a device calls
//===----------------------------------------------------------------------===//

LtResult cublasLtCreate(LtHandle *handle) {
  if (std::getenv("OPTIMUS_FAKE_CUBLASLT_OLD_DRIVER"))
    return kLtNotInitialized;
  *handle = new LtHandleOpaque();
  return kLtSuccess;
}
LtResult cublasLtDestroy(LtHandle handle) {
  delete handle;
  return kLtSuccess;
}
LtResult cublasLtMatmulDescCreate(LtOperation *operation, int computeType,
                                  int scaleType) {
  if ((computeType != kLtComputeF32 && computeType != kLtComputeTF32) ||
      scaleType != kLtF32)
    return kLtNotSupported;
  *operation = new LtOperationOpaque{computeType};
  return kLtSuccess;
}
LtResult cublasLtMatmulDescDestroy(LtOperation operation) {
  delete operation;
  return kLtSuccess;
}

template <typename T>
static LtResult assign(T &to, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return kLtInvalidValue;
  std::memcpy(&to, value, bytes);
  return kLtSuccess;
}

LtResult cublasLtMatmulDescSetAttribute(LtOperation operation, int attribute,
                                        const void *value, size_t bytes) {
  switch (attribute) {
  case kLtTransA:
    return assign(operation->transA, value, bytes);
  case kLtTransB:
    return assign(operation->transB, value, bytes);
  case kLtEpilogue:
    return assign(operation->epilogue, value, bytes);
  case kLtBiasPointer:
    return assign(operation->bias, value, bytes);
  case kLtBiasType:
    return assign(operation->biasType, value, bytes);
  default:
    return kLtInvalidValue;
  }
}
LtResult cublasLtMatrixLayoutCreate(LtLayout *layout, int type, uint64_t rows,
                                    uint64_t cols, int64_t ld) {
  if (rows == 0 || cols == 0 || ld < int64_t(rows) ||
      (type != kLtF32 && type != kLtF16 && type != kLtBF16))
    return kLtInvalidValue;
  *layout = new LtLayoutOpaque{LtType(type), int64_t(rows), int64_t(cols), ld};
  return kLtSuccess;
}
LtResult cublasLtMatrixLayoutDestroy(LtLayout layout) {
  delete layout;
  return kLtSuccess;
}
LtResult cublasLtMatmulPreferenceCreate(LtPreference *preference) {
  *preference = new LtPreferenceOpaque();
  return kLtSuccess;
}
LtResult cublasLtMatmulPreferenceDestroy(LtPreference preference) {
  delete preference;
  return kLtSuccess;
}
LtResult cublasLtMatmulPreferenceSetAttribute(LtPreference preference,
                                              int attribute, const void *value,
                                              size_t bytes) {
  if (attribute == kLtMaxWorkspaceBytes)
    return assign(preference->workspaceBytes, value, bytes);
  if (attribute == kLtReductionSchemes)
    return assign(preference->reductions, value, bytes);
  if (attribute < kLtMinAlignmentA || attribute > kLtMinAlignmentD)
    return kLtInvalidValue;
  return assign(preference->alignment[attribute - kLtMinAlignmentA], value,
                bytes);
}

LtResult cublasLtMatmulAlgoGetHeuristic(LtHandle, LtOperation operation,
                                        LtLayout a, LtLayout b, LtLayout c,
                                        LtLayout d, LtPreference preference,
                                        int requested, LtHeuristic *results,
                                        int *returned) {
  *returned = 0;
  if (requested < 1)
    return kLtInvalidValue;
  const Shape shape(*operation, *a, *b, *c, *d);
  if (shape.wrong)
    return refuse(kLtNotSupported, shape.wrong);
  if (const char *without = std::getenv("OPTIMUS_FAKE_CUBLASLT_WITHOUT")) {
    const std::string product = concat(shape.m, "x", shape.n, "x", shape.k);
    if (product == without)
      return refuse(kLtNotSupported, "no algorithm for this product");
    if (product + ":0" == without)
      return kLtSuccess;
    if (operation->epilogue == kLtBiasGradA && without == "bias_grad"sv)
      return refuse(kLtNotSupported, "no algorithm with a bias's gradient");
  }
  if (preference->workspaceBytes < kWorkspaceBytes)
    return refuse(kLtNotSupported, "no algorithm with so small a workspace");
  if (preference->reductions != kLtReduceComputeType)
    return refuse(kLtNotSupported,
                  "parts of a sum may be added to the result, or rounded");
  const auto most =
      std::min<uint32_t>(uint32_t(requested), fake::kFakeAlgorithms);
  for (uint32_t number = 0; number != most; ++number) {
    Chosen chosen{kMark,
                  number,
                  {},
                  kWorkspaceBytes * (number + 1),
                  shape.m,
                  shape.n,
                  shape.k,
                  biasAlignmentOf(*operation),
                  operation->epilogue};
    if (chosen.workspaceBytes > preference->workspaceBytes)
      break;
    std::memcpy(chosen.alignment, preference->alignment,
                sizeof(chosen.alignment));
    LtHeuristic &result = results[(*returned)++];
    result = {};
    std::memcpy(&result.algorithm, &chosen, sizeof(chosen));
    result.workspaceBytes = chosen.workspaceBytes;
  }
  return kLtSuccess;
}

/// Whether an algorithm is one for this product.
static bool isFor(const Chosen &chosen, const Shape &shape,
                  const LtOperationOpaque &operation) {
  return !shape.wrong && chosen.mark == kMark &&
         chosen.epilogue == operation.epilogue &&
         chosen.number < fake::kFakeAlgorithms && chosen.m == shape.m &&
         chosen.n == shape.n && chosen.k == shape.k;
}

LtResult cublasLtMatmulAlgoCheck(LtHandle, LtOperation operation, LtLayout a,
                                 LtLayout b, LtLayout c, LtLayout d,
                                 const LtAlgorithm *algorithm,
                                 LtHeuristic *result) {
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof(chosen));
  if (!isFor(chosen, Shape(*operation, *a, *b, *c, *d), *operation))
    return kLtInvalidValue;
  result->workspaceBytes = chosen.workspaceBytes;
  result->state = kLtSuccess;
  return kLtSuccess;
}

LtResult cublasLtGetProperty(int property, int *value) {
  // Tests take it for another version.
  const char *major = std::getenv("OPTIMUS_FAKE_CUBLASLT_MAJOR");
  *value = property == kLtMajor ? (major ? std::atoi(major) : 13) : 0;
  return kLtSuccess;
}

LtResult cublasLtMatmul(LtHandle, LtOperation operation, const void *alpha,
                        const void *a, LtLayout layoutA, const void *b,
                        LtLayout layoutB, const void *beta, const void *c,
                        LtLayout layoutC, void *d, LtLayout layoutD,
                        const LtAlgorithm *algorithm, void *workspace,
                        size_t workspaceBytes, Stream stream) {
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof(chosen));
  const Shape shape(*operation, *layoutA, *layoutB, *layoutC, *layoutD);
  const bool isInPlace = c == d;
  if (shape.wrong)
    return refuse(kLtInvalidValue, shape.wrong);
  if (!isFor(chosen, shape, *operation))
    return refuse(kLtInvalidValue, "an algorithm that is another product's");
  if (workspaceBytes < chosen.workspaceBytes)
    return refuse(kLtInvalidValue, "a workspace that is too small");
  if (!isAligned(workspace, 256))
    return refuse(kLtInvalidValue, "a workspace that is not aligned to 256");
  if (isInPlace && layoutC->ld != layoutD->ld)
    return refuse(kLtInvalidValue, "C and D are one, with rows elsewhere");
  const void *operands[] = {a, b, c, d};
  for (int i = 0; i != 4; ++i)
    if (!isAligned(operands[i], chosen.alignment[i]))
      return refuse(kLtInvalidValue,
                    "an operand that is less aligned than was said");
  if (!isAligned(operation->bias, chosen.biasAlignment))
    return refuse(kLtInvalidValue,
                  "a bias that is less aligned than the heuristic's");
  Product product{*operation,
                  *layoutA,
                  *layoutB,
                  *layoutC,
                  *layoutD,
                  shape,
                  *static_cast<const float *>(alpha),
                  *static_cast<const float *>(beta),
                  a,
                  b,
                  c,
                  d,
                  workspace,
                  int64_t(workspaceBytes),
                  chosen.number};
  // Another kernel for each of these.
  const Result loaded = optimus_fake_gpu_load(concat(
      "the kernel of product ", chosen.number, " for types ", layoutA->type,
      " and ", layoutD->type, ", epilogue ", operation->epilogue,
      ", transposes ", operation->transA, operation->transB));
  if (loaded != kSuccess)
    return loaded == kOutOfMemory ? kLtAllocFailed : kLtExecutionFailed;
  return optimus_fake_gpu_put(
             stream,
             concat("a product of ", shape.m, " x ", shape.n, " x ", shape.k),
             [product] { return product.run(); }) == kSuccess
             ? kLtSuccess
             : kLtExecutionFailed;
}
