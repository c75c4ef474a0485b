//===- FakeCublasLt.cpp - Products on a fake GPU --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: checks what a product is given as cuBLASLt does, or more strictly,
// and multiplies on the host, in f64, when its turn comes. As cuBLASLt, it says
// what it refuses where CUBLASLT_LOG_LEVEL is set.
//
//   OPTIMUS_FAKE_CUBLASLT_WITHOUT=MxNxK   knows no algorithm for this product;
//                                         MxNxK:0: and says so by naming none
//
//===----------------------------------------------------------------------===//

#include "CublasLtApi.h"
#include "FakeGpu.h"

#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"
#include "optimus-support/Status.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace optrt;
using optimus_support::concat;
using namespace optrt::cuda;

#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default"))) LtResult symbol parameters;
OPTRT_CUBLASLT_FUNCTIONS(OPTRT_FAKE_DECLARE)

struct optrt::cuda::LtHandleOpaque {};
struct optrt::cuda::LtLayoutOpaque {
  LtType type;
  int64_t rows, cols, ld;

  int64_t elementBytes() const { return type == kLtF32 ? 4 : 2; }
  /// Whether each row begins where the first 16 bytes can be loaded at once.
  bool isAligned() const { return ld * elementBytes() % 16 == 0; }
};
struct optrt::cuda::LtOperationOpaque {
  int compute = kLtComputeF32;
  int32_t transA = kLtPlain, transB = kLtPlain;
  uint32_t epilogue = kLtNoEpilogue;
  const void *bias = nullptr;
  int biasType = -1; ///< -1: the result's
};
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
};
static_assert(sizeof(Chosen) <= sizeof(LtAlgorithm));
constexpr uint32_t kMark = 0x4f70744c;
/// The first algorithm's, and how much more each next one takes, so that
/// whoever gives less is found out. They differ in nothing else.
constexpr uint64_t kWorkspaceBytes = 4096;

bool isAligned(const void *address, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

LtResult refuse(LtResult result, const char *why) {
  if (std::getenv("CUBLASLT_LOG_LEVEL"))
    std::fprintf(stderr, "[cublasLt][Error] %s\n", why);
  return result;
}

/// The sizes of a product.
struct Shape {
  int64_t m = 0, n = 0, k = 0;
  const char *wrong = nullptr; ///< with the layouts or the epilogue

  Shape(const LtOperationOpaque &operation, const LtLayoutOpaque &a,
        const LtLayoutOpaque &b, const LtLayoutOpaque &c,
        const LtLayoutOpaque &d) {
    const bool ta = operation.transA == kLtTransposed,
               tb = operation.transB == kLtTransposed;
    m = d.rows;
    n = d.cols;
    k = ta ? a.rows : a.cols;
    const bool fits = (ta ? a.cols : a.rows) == m &&
                      (tb ? b.rows : b.cols) == n &&
                      (tb ? b.cols : b.rows) == k && c.rows == m &&
                      c.cols == n && a.type == b.type && c.type == d.type &&
                      (d.type == a.type || d.type == kLtF32) &&
                      (operation.compute == kLtComputeF32 || a.type == kLtF32);
    wrong = fits ? wrongEpilogue(operation, d.type)
                 : "layouts that do not fit each other";
  }

private:
  static const char *wrongEpilogue(const LtOperationOpaque &operation,
                                   LtType result) {
    if (operation.epilogue != kLtNoEpilogue && operation.epilogue != kLtBias)
      return "an epilogue that is not known";
    const bool addsBias = operation.epilogue == kLtBias;
    if (addsBias != (operation.bias != nullptr))
      return addsBias ? "the epilogue adds a bias, and none is given"
                      : "a bias is given, and the epilogue adds none";
    return !addsBias || operation.biasType == -1 || operation.biasType == result
               ? nullptr
               : "a bias of another type than the result";
  }
};

double load(LtType type, const void *at, int64_t i) {
  if (type == kLtF32)
    return static_cast<const float *>(at)[i];
  const uint16_t bits = static_cast<const uint16_t *>(at)[i];
  return type == kLtBF16 ? optimus_support::fromBFloat16(bits)
                         : optimus_support::fromFloat16(bits);
}
/// The nearest number with 11 bits of precision, of two the even one.
float toTF32(float value) {
  constexpr uint32_t kDropped = 13;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t half = (1u << (kDropped - 1)) - 1, odd = bits >> kDropped & 1;
  return std::isfinite(value)
             ? std::bit_cast<float>((bits + half + odd) >> kDropped << kDropped)
             : value;
}
void store(LtType type, void *at, int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == kLtF32)
    static_cast<float *>(at)[i] = narrow;
  else
    static_cast<uint16_t *>(at)[i] = type == kLtBF16
                                         ? optimus_support::toBFloat16(narrow)
                                         : optimus_support::toFloat16(narrow);
}

/// A product as it was called, with copies of what its caller may change.
struct Product {
  LtOperationOpaque operation;
  LtLayoutOpaque layoutA, layoutB, layoutC, layoutD;
  Shape shape;
  float alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
  int64_t workspaceBytes;
  uint32_t algorithm;

  Result run() const;
};

Result Product::run() const {
  auto find = [](const void *address, const LtLayoutOpaque &layout,
                 bool isWrite, const char *what) {
    const int64_t bytes = layout.elementBytes();
    return optimus_fake_gpu_touch(
        {address, layout.rows * bytes, layout.cols, layout.ld * bytes, isWrite},
        what);
  };
  const void *left = find(a, layoutA, false, "A of a product");
  const void *right = find(b, layoutB, false, "B of a product");
  const void *added =
      beta != 0 ? find(c, layoutC, false, "C of a product") : nullptr;
  void *result = find(d, layoutD, true, "D of a product");
  void *scratch = optimus_fake_gpu_touch(
      {workspace, workspaceBytes, 1, 0, true}, "the workspace of a product");
  const bool hasBias = operation.epilogue == kLtBias;
  const void *bias =
      hasBias ? optimus_fake_gpu_touch(
                    {operation.bias, shape.m * layoutD.elementBytes()},
                    "the bias of a product")
              : nullptr;
  if (!left || !right || !result || !scratch || (beta != 0 && !added) ||
      (hasBias && !bias))
    return kIllegalAddress;
  // Whoever keeps something there loses it.
  std::memset(scratch, 0xFF, size_t(workspaceBytes));
  const bool ta = operation.transA == kLtTransposed,
             tb = operation.transB == kLtTransposed;
  auto factor = [&](LtType type, const void *at, int64_t i) {
    const double exact = load(type, at, i);
    return operation.compute == kLtComputeTF32 ? toTF32(float(exact)) : exact;
  };
  for (int64_t j = 0; j != shape.n; ++j)
    for (int64_t i = 0; i != shape.m; ++i) {
      double sum = 0;
      for (int64_t l = 0; l != shape.k; ++l)
        sum += factor(layoutA.type, left,
                      ta ? l + i * layoutA.ld : i + l * layoutA.ld) *
               factor(layoutB.type, right,
                      tb ? j + l * layoutB.ld : l + j * layoutB.ld);
      sum *= alpha;
      if (added)
        sum += beta * load(layoutC.type, added, i + j * layoutC.ld);
      if (bias)
        sum += load(layoutD.type, bias, i);
      store(layoutD.type, result, i + j * layoutD.ld, sum);
    }
  // The fast kernels load 16 bytes at a time.
  constexpr int kSlower = 4;
  const bool isFast = layoutA.isAligned() && layoutB.isAligned() &&
                      layoutC.isAligned() && layoutD.isAligned();
  optimus_fake_gpu_multiplied(algorithm, isFast ? 1 : kSlower);
  return kSuccess;
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
  }
  if (preference->workspaceBytes < kWorkspaceBytes)
    return refuse(kLtNotSupported, "no algorithm with so small a workspace");
  if (preference->reductions != kLtReduceComputeType)
    return refuse(kLtNotSupported,
                  "parts of a sum may be added to the result, or rounded");
  const auto most =
      std::min<uint32_t>(uint32_t(requested), fake::kFakeAlgorithms);
  for (uint32_t number = 0; number != most; ++number) {
    Chosen chosen{kMark,   number,  {},     kWorkspaceBytes * (number + 1),
                  shape.m, shape.n, shape.k};
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
static bool isFor(const Chosen &chosen, const Shape &shape) {
  return !shape.wrong && chosen.mark == kMark &&
         chosen.number < fake::kFakeAlgorithms && chosen.m == shape.m &&
         chosen.n == shape.n && chosen.k == shape.k;
}

LtResult cublasLtMatmulAlgoCheck(LtHandle, LtOperation operation, LtLayout a,
                                 LtLayout b, LtLayout c, LtLayout d,
                                 const LtAlgorithm *algorithm,
                                 LtHeuristic *result) {
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof(chosen));
  if (!isFor(chosen, Shape(*operation, *a, *b, *c, *d)))
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
  if (!isFor(chosen, shape))
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
