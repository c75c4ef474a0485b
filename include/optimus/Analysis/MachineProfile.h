//===- MachineProfile.h - What a machine was measured to do -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `optimus-run bench --gemm` and `--comm` write a profile as JSON;
// docs/cost-model.md describes the file. Times are seconds, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_MACHINEPROFILE_H
#define OPTIMUS_ANALYSIS_MACHINEPROFILE_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir::optimus {

/// A product that was timed: C[m,n] = op(A)[m,k]·op(B)[k,n] in f32.
struct GemmPoint {
  int64_t m, n, k;
  bool transA = false, transB = false, bias = false;
  double seconds;
};

/// Attention of one head of a sequence, in f32.
struct AttentionPoint {
  int64_t seq, headDim;
  bool causal = false, gradient = false;
  double seconds;
};

/// What one rank computes with its threads.
struct ComputeProfile {
  /// Threads of a rank when this was measured, ranks that computed at the same
  /// time, and the machine's cores; 0 where each rank is taken to have cores of
  /// its own.
  int64_t threads = 1;
  int64_t ranks = 1;
  int64_t cores = 0;
  /// What a product costs however small it is.
  double gemmAlpha = 4e-6;
  /// Where no point was measured: the rate of a large product, and the extents
  /// at which m, n and k each halve it.
  double flopsPerSecond = 90e9;
  double halfM = 8, halfN = 16, halfK = 16;
  std::vector<GemmPoint> points;
  /// What a byte of a product's operands costs that no cache has.
  double coldSecondsPerByte = 0;
  /// Kernels and copies: the cost of a call, and bytes read and written.
  double kernelAlpha = 3e-6;
  double bytesPerSecond = 8e9;
  /// The same by how many bytes a kernel goes through over and over, where that
  /// was measured.
  std::vector<std::pair<double, double>> streams;
  /// Elements that a kernel computes in a second: of vectors, of vectors that
  /// are divided, and one after the other. 0 where it is not known.
  double vectorOpsPerSecond = 0, divisionsPerSecond = 0, scalarOpsPerSecond = 0;
  double attentionFlopsPerSecond = 40e9;
  std::vector<AttentionPoint> attentions;
};

/// What a collective of S bytes costs among `ranks` ranks, alpha + beta·S, with
/// S the whole tensor: what a broadcast delivers, what an all-gather leaves
/// everywhere and what a reduce-scatter reads.
struct CollectiveProfile {
  std::string backend;
  std::string collective;
  int64_t ranks;
  double alpha;
  double beta;
  /// (bytes, seconds) that were measured, by size; between them, time is
  /// interpolated.
  std::vector<std::pair<double, double>> points;
};

struct MachineProfile {
  /// One for each number of threads that was measured; none for the default.
  std::vector<ComputeProfile> computes;
  std::vector<CollectiveProfile> collectives;
  /// Of the profile's back-ends, the one that collectives are priced for.
  std::string backend = "local";
  /// A link of `linkAlpha` + bytes·`linkBeta` prices what was not measured.
  double linkAlpha = 10e-6;
  double linkBeta = 1 / 4e9;
  /// Whether the collectives of all mesh axes go through one link of a rank, as
  /// through a host's network card; else each axis has its own.
  bool axesShareLink = false;

  /// Reads a profile. An error names the file and what is wrong with it.
  /// Without a name, the built-in profile: one core at 90 GFLOP/s and links of
  /// 4 GB/s.
  static llvm::Expected<MachineProfile> load(StringRef path);
  /// load() in two steps.
  static llvm::Expected<std::string> readText(StringRef path);
  static llvm::Expected<MachineProfile> parse(StringRef json, StringRef name);
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_MACHINEPROFILE_H
