//===- GemmBench.cpp - optimus-run bench --gemm ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times what a rank computes, alone or beside others: products, attention and
// kernels. The compiler's cost model reads what it writes.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ComputeCosts.h"
#include "Format.h"
#include "MachineProfile.h"
#include "optimus-runtime/RankTeam.h"

#include <iostream>
#include <thread>

using namespace optrt;

namespace optimus_run {
namespace {

void print(const ComputeCosts &costs, int threads, int ranks) {
  Table products({"m", "n", "k", "operands", "time (us)", "GFLOP/s"}, {3});
  for (const GemmPoint &point : costs.products)
    products.addRow(
        {std::to_string(point.m), std::to_string(point.n),
         std::to_string(point.k),
         concat(point.transA ? "A'" : "A", point.transB ? " B'" : " B",
                point.bias ? " + bias" : ""),
         format("%.1f", point.seconds * 1e6),
         format("%.1f", point.rate() / 1e9)});
  products.print(std::cout);
  Table attentions({"attention", "tokens", "head", "time (us)", "GFLOP/s"});
  for (const AttentionPoint &point : costs.attentions)
    attentions.addRow({concat(point.causal ? "causal" : "full",
                              point.gradient ? ", gradient" : ""),
                       std::to_string(point.seq), std::to_string(point.headDim),
                       format("%.1f", point.seconds * 1e6),
                       format("%.1f", point.flops() / point.seconds / 1e9)});
  attentions.print(std::cout);
  Table streams({"stream", "GB/s"});
  for (const StreamPoint &point : costs.streams)
    streams.addRow(
        {formatBytes(point.bytes), format("%.1f", point.bytesPerSecond / 1e9)});
  streams.print(std::cout);
  std::cout << format(
      "%d threads, %d ranks: products cost %.1f us and at best %.1f GFLOP/s, "
      "cold operands %.3f ns a byte, kernels %.1f us and %.1f GB/s, elements "
      "a ns: %.1f of vectors, %.1f divided, %.1f one after the other; "
      "attention %.1f GFLOP/s\n",
      threads, ranks, costs.gemmAlpha * 1e6, costs.flops() / 1e9,
      costs.coldSecondsPerByte * 1e9, costs.kernelAlpha * 1e6,
      costs.bytesPerSecond() / 1e9, costs.vectorOps / 1e9,
      costs.divisions / 1e9, costs.scalarOps / 1e9,
      costs.attentionFlops() / 1e9);
}

nlohmann::ordered_json toJson(const ComputeCosts &costs, int threads,
                              int ranks) {
  auto points = nlohmann::ordered_json::array();
  for (const GemmPoint &point : costs.products)
    points.push_back({{"m", point.m},
                      {"n", point.n},
                      {"k", point.k},
                      {"trans_a", point.transA},
                      {"trans_b", point.transB},
                      {"bias", point.bias},
                      {"seconds", point.seconds}});
  auto attentions = nlohmann::ordered_json::array();
  for (const AttentionPoint &point : costs.attentions)
    attentions.push_back({{"seq", point.seq},
                          {"head_dim", point.headDim},
                          {"causal", point.causal},
                          {"gradient", point.gradient},
                          {"seconds", point.seconds}});
  auto streams = nlohmann::ordered_json::array();
  for (const StreamPoint &point : costs.streams)
    streams.push_back(
        {{"bytes", point.bytes}, {"bytes_per_s", point.bytesPerSecond}});
  auto entries = nlohmann::ordered_json::array();
  entries.push_back({{"threads", threads},
                     {"ranks", ranks},
                     {"cores", std::thread::hardware_concurrency()},
                     {"alpha_s", costs.gemmAlpha},
                     {"flops_per_s", costs.flops()},
                     {"cold_s_per_byte", costs.coldSecondsPerByte},
                     {"kernel_alpha_s", costs.kernelAlpha},
                     {"bytes_per_s", costs.bytesPerSecond()},
                     {"vector_ops_per_s", costs.vectorOps},
                     {"divisions_per_s", costs.divisions},
                     {"scalar_ops_per_s", costs.scalarOps},
                     {"attention_flops_per_s", costs.attentionFlops()},
                     {"streams", streams},
                     {"attention", attentions},
                     {"points", points}});
  return entries;
}

/// Every rank on a thread of its own, all at the same time.
StatusOr<ComputeCosts> measureTogether(const BenchOptions &options, int threads,
                                       int ranks) {
  OPTRT_ASSIGN_OR_RETURN(DeviceFactory factory, DeviceFactory::open("cpu"));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<RankTeam> team,
                         RankTeam::create(ranks, [] {}));
  std::vector<ComputeCosts> costs(ranks);
  OPTRT_RETURN_IF_ERROR(team->run([&](int rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           factory.create(threads));
    OPTRT_ASSIGN_OR_RETURN(
        costs[rank],
        measureComputeCosts(*device, {options.largest, options.rounds}));
    return okStatus();
  }));
  return medianOf(std::move(costs));
}

} // namespace

Status benchProducts(const BenchOptions &options, World &world) {
  // Ranks of other processes would disturb it at other times than all the time.
  if (world.control->size() != world.control->numLocalRanks())
    return invalidArgument(
        "bench --gemm measures ranks that are threads: start "
        "it without mpirun, with --ranks");
  if (!options.profile.empty())
    OPTRT_RETURN_IF_ERROR(checkMachineProfile(options.profile));
  int threads = std::max(1, options.ranks.threadsPerRank);
  int ranks = std::max(1, static_cast<int>(options.numRanks));
  OPTRT_ASSIGN_OR_RETURN(ComputeCosts costs,
                         measureTogether(options, threads, ranks));
  nlohmann::ordered_json entries = toJson(costs, threads, ranks);
  if (options.json)
    std::cout << entries.dump(2) << '\n';
  else
    print(costs, threads, ranks);
  static constexpr const char *kKeys[] = {"threads", "ranks"};
  return options.profile.empty()
             ? okStatus()
             : mergeIntoMachineProfile(options.profile, "gemm", entries, kKeys);
}

} // namespace optimus_run
