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
#include "Format.h"

#include "measure/ComputeCosts.h"
#include "measure/MachineProfile.h"
#include "measure/ScratchCosts.h"

#include <iostream>

using namespace optrt;

namespace optimus_run {
namespace {

void print(const ProductCosts &costs, const char *type) {
  Table products({"m", "n", "k", "type", "operands", "time (us)", "GFLOP/s"},
                 {3, 4});
  for (const GemmPoint &point : costs.products)
    products.addRow(
        {std::to_string(point.m), std::to_string(point.n),
         std::to_string(point.k), type,
         concat(point.transA ? "A'" : "A", point.transB ? " B'" : " B",
                point.bias ? " + bias" : ""),
         format("%.1f", point.seconds * 1e6),
         format("%.1f", point.rate() / 1e9)});
  products.print(std::cout);
  Table attentions(
      {"attention", "type", "tokens", "head", "time (us)", "GFLOP/s"}, {1});
  for (const AttentionPoint &point : costs.attentions)
    attentions.addRow({concat(point.causal ? "causal" : "full",
                              point.gradient ? ", gradient" : ""),
                       type, std::to_string(point.seq),
                       std::to_string(point.headDim),
                       format("%.1f", point.seconds * 1e6),
                       format("%.1f", point.flops() / point.seconds / 1e9)});
  attentions.print(std::cout);
}

void print(const ComputeCosts &costs, int threads, int ranks) {
  print(costs.f32, "f32");
  print(costs.bf16, "bf16");
  Table packs({"packed", "operand", "time (us)", "GB/s"}, {1});
  for (const PackPoint &point : costs.packs)
    packs.addRow({concat(point.rows, "x", point.cols), point.trans ? "B'" : "B",
                  format("%.1f", point.seconds * 1e6),
                  format("%.1f", point.bytes() / point.seconds / 1e9)});
  packs.print(std::cout);
  Table streams({"stream", "GB/s", "by columns"});
  for (std::size_t i = 0; i != costs.streams.size(); ++i)
    streams.addRow({formatBytes(costs.streams[i].bytes),
                    format("%.1f", costs.streams[i].bytesPerSecond / 1e9),
                    format("%.1f", costs.columns[i].bytesPerSecond / 1e9)});
  streams.print(std::cout);
  std::cout << format(
      "%d threads, %d ranks: products cost %.1f us and at best %.1f GFLOP/s in "
      "f32, %.1f in bf16, cold operands %.3f and %.3f ns a byte, kernels %.1f "
      "us and %.1f GB/s, elements a ns: %.1f of vectors, %.1f divided, %.1f "
      "one after the other; "
      "attention %.1f GFLOP/s in f32, %.1f in bf16\n",
      threads, ranks, costs.gemmAlpha * 1e6, costs.f32.flops() / 1e9,
      costs.bf16.flops() / 1e9, costs.f32.coldSecondsPerByte * 1e9,
      costs.bf16.coldSecondsPerByte * 1e9, costs.kernelAlpha * 1e6,
      costs.bytesPerSecond() / 1e9, costs.vectorOps / 1e9,
      costs.divisions / 1e9, costs.scalarOps / 1e9,
      costs.f32.attentionFlops() / 1e9, costs.bf16.attentionFlops() / 1e9);
}

/// Of one thread alone, which nobody disturbs.
Status benchScratch(const BenchOptions &options) {
  const auto costs =
      measureScratchCosts(options.ranks.scratchFolder, options.rounds);
  // Programs that offload nothing need none.
  if (!costs.ok()) {
    if (!options.json)
      std::cout << costs.status().message() << '\n';
    return okStatus();
  }
  auto print = [](const char *direction, const ScratchCost &cost) {
    std::cout << format("scratch files %s: %.2f GB/s, %.3f ns of a processor a "
                        "byte\n",
                        direction, cost.bytesPerSecond / 1e9,
                        cost.processorSeconds * 1e9);
  };
  if (!options.json) {
    print("read", costs->in);
    print("written", costs->out);
  }
  return options.profile.empty()
             ? okStatus()
             : replaceInMachineProfile(options.profile, "scratch",
                                       scratchEntry(*costs));
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
  OPTRT_ASSIGN_OR_RETURN(
      ComputeCosts costs,
      measureComputeCosts(threads, ranks, {options.largest, options.rounds}));
  nlohmann::ordered_json entries = machineEntries(costs, threads, ranks);
  if (options.json)
    std::cout << entries.dump(2) << '\n';
  else
    print(costs, threads, ranks);
  static constexpr const char *kKeys[] = {"threads", "ranks"};
  if (!options.profile.empty())
    OPTRT_RETURN_IF_ERROR(
        mergeIntoMachineProfile(options.profile, "gemm", entries, kKeys));
  return threads * ranks == 1 ? benchScratch(options) : okStatus();
}

} // namespace optimus_run
