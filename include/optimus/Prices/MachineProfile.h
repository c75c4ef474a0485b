//===- MachineProfile.h - What a machine was measured to do -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_MACHINEPROFILE_H
#define OPTIMUS_PRICES_MACHINEPROFILE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optimus_prices {

/// A product that was timed: C[m,n] = op(A)[m,k]·op(B)[k,n].
struct GemmPoint {
  int64_t m, n, k;
  bool transA = false, transB = false, bias = false;
  /// Whether rows of a matrix lie farther apart than they are long.
  bool gaps = false;
  double seconds;
};

/// Attention of one head of a sequence.
struct AttentionPoint {
  int64_t seq, headDim;
  bool causal = false, gradient = false;
  double seconds;
};

/// op(B)[rows,cols] of products, packed from where no cache has it.
struct PackPoint {
  int64_t rows, cols;
  bool trans = false;
  double seconds;
};

/// One of the implementations of attention: where no point was measured, its
/// products' floating-point operations a second.
struct AttentionRates {
  double flopsPerSecond = 40e9;
  std::vector<AttentionPoint> points;
};

/// Products and attention of factors of one type.
struct ProductRates {
  /// Where no point was measured: the rate of a large product, and the extents
  /// at which m, n and k each halve it.
  double flopsPerSecond = 90e9;
  double halfM = 8, halfN = 16, halfK = 16;
  std::vector<GemmPoint> points;
  /// The cost of a byte of operands outside of every cache; of a type without
  /// one, that of f32.
  std::optional<double> coldSecondsPerByte;
  /// By the device's own attention: its kernels', or commands of processors.
  AttentionRates attention;
  /// By cuDNN; where there are none, the others are taken.
  std::optional<AttentionRates> cudnnAttention;

  const AttentionRates &getLibraryAttention() const {
    return cudnnAttention ? *cudnnAttention : attention;
  }
};

/// What one rank computes with its threads. The rates are those of f32.
struct ComputeProfile : ProductRates {
  /// Threads of a rank when this was measured, ranks that computed at the same
  /// time, and the machine's cores; 0 where each rank is taken to have cores of
  /// its own.
  int64_t threads = 1;
  int64_t ranks = 1;
  int64_t cores = 0;
  /// What a product costs however small it is.
  double gemmAlpha = 4e-6;
  /// The rates of other types than f32, by MLIR's names; what is not here is
  /// priced as f32.
  std::vector<std::pair<std::string, ProductRates>> otherTypes;
  /// Where none was measured, packing is priced as a copy.
  std::vector<PackPoint> packs;
  /// Kernels and copies: the cost of a call, and bytes read and written.
  double kernelAlpha = 3e-6;
  double bytesPerSecond = 8e9;
  /// The same by how many bytes a kernel goes through over and over, where that
  /// was measured.
  std::vector<std::pair<double, double>> streams;
  /// The same of a kernel that reads matrices column by column.
  std::vector<std::pair<double, double>> columns;
  /// Elements that a kernel computes in a second: of vectors, of vectors that
  /// are divided, and one after the other. 0 where it is not known.
  double vectorOpsPerSecond = 0, divisionsPerSecond = 0, scalarOpsPerSecond = 0;

  /// Those of factors of a type.
  const ProductRates &getRates(std::string_view type) const {
    for (const auto &[name, rates] : otherTypes)
      if (name == type)
        return rates;
    return *this;
  }
};

/// Links that join up to `ranks` ranks with consecutive numbers, as those of a
/// node: a step of a collective takes alpha, and a byte that a rank sends beta.
struct LinkTier {
  int64_t ranks;
  double alpha, beta;
};

/// The GPU of each rank.
struct GpuProfile {
  std::string name;
  int64_t memoryBytes = 0;
  /// Of these, what the driver, its context and its libraries take.
  int64_t reservedBytes = 0;
  int64_t getUsableBytes() const { return memoryBytes - reservedBytes; }
  /// Whether it was measured where a fake driver took a GPU's place, so that
  /// its times are a processor's.
  bool isFake = false;
};

/// Between the memory of a rank's device and its host's: bytes a second into
/// the device's memory and out of it, and what a copy costs however small.
struct HostLink {
  double in = 0, out = 0;
  double alpha = 10e-6;
};

/// Between a processor's memory and scratch files on a disk: what a processor
/// spends on a byte, besides.
struct ScratchLink : HostLink {
  double inProcessorSeconds = 0, outProcessorSeconds = 0;
};

/// What a collective of S bytes costs among `ranks` ranks, alpha + beta·S, with
/// S the whole tensor: the tensor delivered by a broadcast, left everywhere by
/// an all-gather, or read by a reduce-scatter.
struct CollectiveProfile {
  std::string backend;
  std::string collective;
  int64_t ranks;
  double alpha;
  double beta;
  /// (bytes, seconds) that were measured, by size; between them, time is
  /// interpolated.
  std::vector<std::pair<double, double>> points = {};
  /// The same of what processors spent on it, all ranks together. None where
  /// that is not known.
  std::vector<std::pair<double, double>> processors = {};
  /// Machines on which these ranks were; those on one share its cores. 0: not
  /// known.
  int64_t machines = 0;
};

/// The costs of collectives, and their links.
struct CommunicationProfile {
  std::vector<CollectiveProfile> collectives;
  /// Of the profile's back-ends, the one that collectives are priced for.
  std::string backend = "local";
  /// A link of `linkAlpha` + bytes·`linkBeta` prices what was not measured.
  double linkAlpha = 10e-6;
  double linkBeta = 1 / 4e9;
  /// Whether the collectives of all mesh axes go through one link of a rank, as
  /// through a host's network card; else each axis has its own.
  bool axesShareLink = false;
  /// From the nearest to the farthest; where there are none, all ranks have the
  /// link above. More ranks than the last one joins have that, too.
  std::vector<LinkTier> tiers;
};

/// By kind, how many times as long computing takes beside a collective on the
/// same device, and a collective beside computing; 1 of kinds that are not
/// here.
struct Interference {
  using Factors = std::vector<std::pair<std::string, double>>;
  /// Whose measurement it is.
  std::string source;
  Factors computing, collectives;
};

inline double getFactor(const Interference::Factors &factors,
                        std::string_view kind) {
  for (const auto &[name, factor] : factors)
    if (name == kind)
      return factor;
  return 1;
}

/// docs/cost-model.md describes its file.
struct MachineProfile : CommunicationProfile {
  /// One for each number of threads that was measured; none for the default.
  std::vector<ComputeProfile> computes;
  /// Where ranks compute on GPUs.
  std::optional<GpuProfile> gpu;
  /// Where it is known.
  std::optional<HostLink> hostLink;
  std::optional<ScratchLink> scratch;
  /// Of GPUs; processors share cores.
  std::optional<Interference> interference;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_MACHINEPROFILE_H
