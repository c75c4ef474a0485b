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
// nothing moves. Its epilogue adds a bias, or writes the sum of B's rows, its
// BGRADA; a matrix is added as its C, with beta 1. No epilogue multiplies by a
// matrix, so such a product of a program is a launch of its own.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_PRODUCTS_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_PRODUCTS_H

#include "CublasLtApi.h"

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/Device.h"
#include "optimus-support/GpuScratch.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

  /// Whether the latest failure was a lack of memory, for code or else.
  bool isOutOfMemory() const { return hasRunOut; }
  /// Whether the latest product left the sum of B's rows to its kernel, as
  /// cuBLASLt names no algorithm that writes it.
  bool leftRowSum() const { return isRowSumLeft; }

  /// "cuBLASLt 13.0.2".
  StatusOr<std::string> version() const;

  /// `workspace` has kProductWorkspaceBytes, aligned to 256.
  Status run(Stream stream, const optrt_gemm_desc &desc,
             const ProductOperands &operands, void *workspace);

  // Tuning.cpp

  /// Does a product as `tuned` says from now on, if it does; false where that
  /// has to be found out. InvalidArgument where what it says is no algorithm.
  StatusOr<bool> adopt(const ProductCall &product, const TunedProducts &tuned);
  /// Runs a product by every algorithm that cuBLASLt names, keeps the fastest,
  /// and adds it to `tuned`. `time` runs it with run()'s resources, and returns
  /// the seconds.
  Status tryAll(const ProductCall &product, TunedProducts &tuned,
                const std::function<StatusOr<double>()> &time);

private:
  /// How a product is computed of operands so aligned, found out once.
  struct Plan {
    explicit Plan(const CublasLtApi &api) : api(api) {}
    ~Plan();
    Plan(const Plan &) = delete;

    const CublasLtApi &api;
    LtOperation operation = nullptr;
    LtLayout a = nullptr, b = nullptr, c = nullptr, added = nullptr;
    LtHeuristic found = {};
    std::string name; ///< "m=64 n=32 k=128 …"
    bool isTuned = false;
    bool leavesRowSum = false;
  };
  using Key = std::array<int64_t, 19>;

  Products() = default;
  Status check(LtResult result, const char *call) const;
  StatusOr<Plan *> plan(const optrt_gemm_desc &desc,
                        const ProductOperands &operands);
  Status describeEpilogue(const Plan &plan, const optrt_gemm_desc &desc,
                          const ProductOperands &operands) const;
  /// At most so many algorithms, the most promising first; none where cuBLASLt
  /// names none.
  StatusOr<std::vector<LtHeuristic>> list(const optrt_gemm_desc &desc,
                                          const ProductOperands &operands,
                                          const Plan &plan, int most) const;
  bool accepts(const Plan &plan, LtHeuristic &algorithm) const;
  std::string nameOf(const Key &key) const;

  CublasLtApi api = {};
  bool tf32 = false;
  mutable bool hasRunOut = false;
  bool isRowSumLeft = false;
  LtHandle handle = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans;
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_PRODUCTS_H
