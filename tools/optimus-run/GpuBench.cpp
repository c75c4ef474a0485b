//===- GpuBench.cpp - optimus-run bench --gemm --device cuda --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times products, cuDNN's attention and copies of a GPU by its own events, and
// the cost of a command repeated from a recording. The compiler's cost model
// reads what it writes.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Format.h"

#include "measure/GpuCosts.h"
#include "measure/MachineProfile.h"

#include <iostream>

using namespace optrt;

namespace optimus_run {
namespace {

using Json = nlohmann::ordered_json;

void print(const GpuCosts &costs, const Json &gpu) {
  Table products({"m", "n", "k", "type", "operands", "time (us)", "TFLOP/s"},
                 {3, 4});
  for (std::size_t kind = 0; kind != std::size(kGpuTypes); ++kind)
    for (const GemmPoint &point : costs.types[kind].products)
      products.addRow(
          {std::to_string(point.m), std::to_string(point.n),
           std::to_string(point.k), std::string(toString(kGpuTypes[kind])),
           concat(point.transA ? "A'" : "A", point.transB ? " B'" : " B"),
           format("%.1f", point.seconds * 1e6),
           format("%.2f", point.rate() / 1e12)});
  products.print(std::cout);
  if (costs.noAttention.empty()) {
    Table attentions({"cuDNN's attention", "size of a head", "tokens",
                      "time of a head (us)", "TFLOP/s"});
    for (const AttentionPoint &point : costs.types[1].attentions)
      attentions.addRow({point.gradient ? "gradient" : "forward",
                         std::to_string(point.headDim),
                         std::to_string(point.seq),
                         format("%.2f", point.seconds * 1e6),
                         format("%.2f", point.flops() / point.seconds / 1e12)});
    attentions.print(std::cout);
  } else {
    std::cout << "cuDNN's attention was not timed: " << costs.noAttention
              << '\n';
  }
  Table streams({"stream", "GB/s"});
  for (const StreamPoint &point : costs.streams)
    streams.addRow(
        {formatBytes(point.bytes), format("%.1f", point.bytesPerSecond / 1e9)});
  streams.print(std::cout);
  std::cout << gpu.value("name", "")
            << format(": products cost %.1f us, f32 at best %.2f TFLOP/s, bf16 "
                      "%.2f; a command that is repeated %.2f us\n",
                      costs.gemmAlpha * 1e6, costs.types[0].flops() / 1e12,
                      costs.types[1].flops() / 1e12, costs.commandAlpha * 1e6);
  if (gpu.value("fake", false))
    std::cout << "of a fake GPU: these are times of the processor\n";
}

} // namespace

Status benchGpu(const BenchOptions &options, World &world) {
  if (world.control->size() != world.control->numLocalRanks() ||
      options.numRanks > 1)
    return invalidArgument("bench --gemm --device cuda measures one rank, "
                           "whose GPU no other rank uses: start it without "
                           "mpirun and without --ranks");
  OPTRT_ASSIGN_OR_RETURN(DeviceFactory factory, DeviceFactory::open("cuda"));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                         factory.create(/*threads=*/1));
  const Json gpu = Json::parse(device->properties());
  if (!options.profile.empty())
    OPTRT_RETURN_IF_ERROR(checkMachineProfile(options.profile, gpu));
  const ComputeGrid grid{options.largest, options.rounds};
  OPTRT_ASSIGN_OR_RETURN(GpuCosts costs, measureGpuCosts(*device, grid));
  const Json entries = machineEntries(costs);
  if (options.json)
    std::cout << Json{{"gpu", gpu}, {"gemm", entries}}.dump(2) << '\n';
  else
    print(costs, gpu);
  static constexpr const char *kKeys[] = {"threads", "ranks"};
  return options.profile.empty() ? okStatus()
                                 : mergeIntoMachineProfile(
                                       options.profile, "gemm", entries, kKeys,
                                       gpu);
}

} // namespace optimus_run
