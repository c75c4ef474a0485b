//===- FakeProduct.cpp - A product on a fake GPU --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeProduct.h"

#include "FakeGpu.h"

#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace optrt::cuda::fake {

/// What is wrong with an epilogue for such results; null for nothing.
static const char *wrongEpilogue(const LtOperationOpaque &operation,
                                 LtType result) {
  const bool addsBias = operation.epilogue == kLtBias,
             hasGradient = operation.epilogue == kLtBiasGradA;
  if (operation.epilogue != kLtNoEpilogue && !addsBias && !hasGradient)
    return "an epilogue that is not known";
  if (hasGradient && !operation.bias)
    return "the epilogue writes a bias's gradient, and has no place for it";
  if (!hasGradient && addsBias != (operation.bias != nullptr))
    return addsBias ? "the epilogue adds a bias, and none is given"
                    : "a bias is given, and the epilogue adds none";
  return !operation.bias || operation.biasType == -1 ||
                 operation.biasType == result
             ? nullptr
             : "a bias of another type than the result";
}

ProductShape::ProductShape(const LtOperationOpaque &operation,
                           const LtLayoutOpaque &a, const LtLayoutOpaque &b,
                           const LtLayoutOpaque &c, const LtLayoutOpaque &d) {
  const bool ta = operation.transA == kLtTransposed,
             tb = operation.transB == kLtTransposed;
  m = d.rows;
  n = d.cols;
  k = ta ? a.rows : a.cols;
  const bool fits = (ta ? a.cols : a.rows) == m &&
                    (tb ? b.rows : b.cols) == n &&
                    (tb ? b.cols : b.rows) == k && c.rows == m && c.cols == n &&
                    a.type == b.type && c.type == d.type &&
                    (d.type == a.type || d.type == kLtF32) &&
                    (operation.compute == kLtComputeF32 || a.type == kLtF32);
  wrong = fits ? wrongEpilogue(operation, d.type)
               : "layouts that do not fit each other";
}

static double load(LtType type, const void *at, int64_t i) {
  if (type == kLtF32)
    return static_cast<const float *>(at)[i];
  const uint16_t bits = static_cast<const uint16_t *>(at)[i];
  return type == kLtBF16 ? optimus_support::fromBFloat16(bits)
                         : optimus_support::fromFloat16(bits);
}
/// The nearest number with 11 bits of precision, of two the even one.
static float toTF32(float value) {
  constexpr uint32_t kDropped = 13;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t half = (1u << (kDropped - 1)) - 1, odd = bits >> kDropped & 1;
  return std::isfinite(value)
             ? std::bit_cast<float>((bits + half + odd) >> kDropped << kDropped)
             : value;
}
static void store(LtType type, void *at, int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == kLtF32)
    static_cast<float *>(at)[i] = narrow;
  else
    static_cast<uint16_t *>(at)[i] = type == kLtBF16
                                         ? optimus_support::toBFloat16(narrow)
                                         : optimus_support::toFloat16(narrow);
}

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
  const bool hasBias = operation.epilogue == kLtBias,
             hasGradient = operation.epilogue == kLtBiasGradA;
  const int64_t biasBytes = shape.m * layoutD.elementBytes();
  void *bias = hasBias || hasGradient
                   ? optimus_fake_gpu_touch(
                         {operation.bias, biasBytes, 1, 0, hasGradient},
                         hasGradient ? "the bias gradient of a product"
                                     : "the bias of a product")
                   : nullptr;
  if (!left || !right || !result || !scratch || (beta != 0 && !added) ||
      ((hasBias || hasGradient) && !bias))
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
      if (hasBias)
        sum += load(layoutD.type, bias, i);
      store(layoutD.type, result, i + j * layoutD.ld, sum);
    }
  for (int64_t i = 0; hasGradient && i != shape.m; ++i) {
    double sum = 0;
    for (int64_t l = 0; l != shape.k; ++l)
      sum += load(layoutA.type, left,
                  ta ? l + i * layoutA.ld : i + l * layoutA.ld);
    store(layoutD.type, bias, i, sum);
  }
  // The fast kernels load 16 bytes at a time.
  constexpr int kSlower = 4;
  const bool isFast = layoutA.isAligned() && layoutB.isAligned() &&
                      layoutC.isAligned() && layoutD.isAligned();
  optimus_fake_gpu_multiplied(algorithm, isFast ? 1 : kSlower);
  return kSuccess;
}

} // namespace optrt::cuda::fake
