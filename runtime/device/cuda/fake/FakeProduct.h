//===- FakeProduct.h - A product on a fake GPU ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEPRODUCT_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEPRODUCT_H

#include "CublasLtApi.h"

#include <cstdint>

namespace optrt::cuda {

struct LtLayoutOpaque {
  LtType type;
  int64_t rows, cols, ld;

  int64_t elementBytes() const { return type == kLtF32 ? 4 : 2; }
  /// Whether each row begins where the first 16 bytes can be loaded at once.
  bool isAligned() const { return ld * elementBytes() % 16 == 0; }
};
struct LtOperationOpaque {
  int compute = kLtComputeF32;
  int32_t transA = kLtPlain, transB = kLtPlain;
  uint32_t epilogue = kLtNoEpilogue;
  const void *bias = nullptr;
  int biasType = -1; ///< -1: the result's
};
} // namespace optrt::cuda

namespace optrt::cuda::fake {

/// The sizes of a product.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  const char *wrong = nullptr; ///< with the layouts or the epilogue

  ProductShape(const LtOperationOpaque &operation, const LtLayoutOpaque &a,
               const LtLayoutOpaque &b, const LtLayoutOpaque &c,
               const LtLayoutOpaque &d);
};

/// A product as it was called, with copies of what its caller may change.
struct Product {
  LtOperationOpaque operation;
  LtLayoutOpaque layoutA, layoutB, layoutC, layoutD;
  ProductShape shape;
  float alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
  int64_t workspaceBytes;
  uint32_t algorithm;

  /// Multiplies on the host, in f64, when its turn comes.
  Result run() const;
};

} // namespace optrt::cuda::fake

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKEPRODUCT_H
