//===- ComputeCosts.h - What a rank's computations take ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_COMPUTECOSTS_H
#define OPTIMUS_RUNTIME_MEASURE_COMPUTECOSTS_H

#include "optimus-runtime/Device.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace optrt {

/// C[m,n] = op(A)[m,k]·op(B)[k,n], with a bias as forward products have it.
struct GemmPoint {
  int64_t m, n, k;
  bool transA = false, transB = false, bias = false;
  /// Whether rows of B, or of a gradient of a weight, lie twice as far apart as
  /// they are long.
  bool gaps = false;
  double seconds = 0;

  double flops() const { return 2.0 * static_cast<double>(m * n * k); }
  double rate() const { return flops() / seconds; }
  /// Of its matrices, with factors of a type.
  double bytes(int32_t type) const;
  /// As a command, with factors of a type
  /// (OPTRT_F32, OPTRT_BF16): a gradient of a weight, as which A is transposed,
  /// is f32, all else of the factors' type.
  optrt_gemm_desc command(int32_t type) const;
};

/// One head of one sequence.
struct AttentionPoint {
  int64_t seq, headDim;
  bool causal = false, gradient = false;
  double seconds = 0;

  /// 2 products and of the gradient 5; half of each with the causal mask.
  double flops() const {
    return (causal ? 1.0 : 2.0) * (gradient ? 5 : 2) *
           static_cast<double>(seq * seq * headDim);
  }
};

/// op(B)[rows,cols] of products, packed; with `trans`, B is [cols,rows].
struct PackPoint {
  int64_t rows, cols;
  bool trans = false;
  double seconds = 0;

  double bytes() const { return 8.0 * static_cast<double>(rows * cols); }
  /// As a command on a matrix without gaps.
  optrt_pack_desc command() const;
};

/// A kernel that passed over so many bytes again and again, between products as
/// long as those of a step of the same traffic.
struct StreamPoint {
  int64_t bytes;
  double bytesPerSecond = 0; ///< read and written
};

/// Products and attention of factors of one type.
struct ProductCosts {
  std::vector<GemmPoint> products;
  std::vector<AttentionPoint> attentions;
  /// The cost of a byte of a product's operands outside of every cache.
  double coldSecondsPerByte = 0;

  double flops() const;          ///< of the best product
  double attentionFlops() const; ///< over all points together
};

struct ComputeCosts {
  ProductCosts f32, bf16;
  std::vector<PackPoint> packs;
  std::vector<StreamPoint> streams;
  /// The same of a matrix that is read column by column.
  std::vector<StreamPoint> columns;
  double gemmAlpha = 0, kernelAlpha = 0;
  /// Elements a second: of vectors, of vectors that are divided, and one after
  /// the other.
  double vectorOps = 0, divisions = 0, scalarOps = 0;

  double bytesPerSecond() const; ///< of the largest stream
};

/// As a machine profile lists them.
void to_json(nlohmann::ordered_json &json, const GemmPoint &point);
void to_json(nlohmann::ordered_json &json, const AttentionPoint &point);
void to_json(nlohmann::ordered_json &json, const PackPoint &point);
void to_json(nlohmann::ordered_json &json, const StreamPoint &point);

/// What is measured: products of extents up to `largest`, everything in so many
/// rounds, so that a slow moment of the machine counts for little.
struct ComputeGrid {
  int64_t largest = 3072;
  int64_t rounds = 3;
};

/// On so many ranks of this process at the same time, each on a thread of its
/// own with a team of `threads`; of each figure the ranks' median.
///
/// Errors: the device's, and Unavailable where threads cannot be had.
StatusOr<ComputeCosts> measureComputeCosts(int threads, int ranks,
                                           const ComputeGrid &grid);

/// The entry of section "gemm" of a machine profile.
nlohmann::ordered_json machineEntries(const ComputeCosts &costs, int threads,
                                      int ranks);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_COMPUTECOSTS_H
