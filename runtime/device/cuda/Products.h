//===- Products.h - Products by cuBLASLt ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt knows matrices by columns. A row-major matrix is, by columns, its
// transpose, so C = A B is computed as C^T = B^T A^T: operands are swapped and
// nothing moves. Its epilogue adds a bias; a matrix is added as its C, with
// beta 1. It multiplies with no matrix, so that what a program multiplies a
// product with is a launch of its own.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_PRODUCTS_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_PRODUCTS_H

#include "CublasLtApi.h"

#include "optimus-runtime/Status.h"
#include "optimus-support/GpuScratch.h"
#include "optimus-support/model_abi.h"

#include <array>
#include <map>
#include <memory>

namespace optrt::cuda {

inline constexpr int64_t kProductWorkspaceBytes =
    optimus_support::kGpuWorkspaceBytes;

/// The operands of a product.
struct ProductOperands {
  const void *a, *b;
  void *c;
  const void *bias, *extra;
};

/// InvalidArgument or Unavailable where a product is not for this device.
Status checkProduct(const optrt_gemm_desc &desc,
                    const ProductOperands &operands);

class Products {
public:
  /// Opens cuBLASLt: libcublasLt.so.13 or .12, or the file in
  /// $OPTIMUS_CUBLASLT_LIBRARY. With `tf32`, products of f32 may round their
  /// factors to TF32.
  static StatusOr<std::unique_ptr<Products>> open(bool tf32);
  ~Products();

  /// `workspace` has kProductWorkspaceBytes, aligned to 256.
  Status run(Stream stream, const optrt_gemm_desc &desc,
             const ProductOperands &operands, void *workspace);

private:
  /// How a product is computed of operands so aligned, found out once.
  struct Plan;
  using Key = std::array<int64_t, 19>;

  Products() = default;
  Status check(LtResult result, const char *call) const;
  StatusOr<Plan *> plan(const optrt_gemm_desc &desc,
                        const ProductOperands &operands);
  Status choose(const ProductOperands &operands, const void *added,
                Plan &plan) const;

  CublasLtApi api = {};
  bool tf32 = false;
  LtHandle handle = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans;
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_PRODUCTS_H
