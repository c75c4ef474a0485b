//===- Report.cpp - Communication and memory, for people ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "Format.h"

#include "optimus-support/GpuScratch.h"

#include <cstdio>

using namespace optrt;

namespace optimus_run {

void printCommunication(const Mesh &mesh, std::span<const Traffic> traffic) {
  for (int axis = 0; axis != mesh.numAxes(); ++axis)
    if (mesh.axisSize(axis) > 1)
      std::printf("communication over %s: %s and %lld messages a step\n",
                  mesh.axes()[axis].name.c_str(),
                  formatBytes(traffic[axis].bytes).c_str(),
                  static_cast<long long>(traffic[axis].messages));
}

void printCommunicationTime(const CommunicationTime &time) {
  const double hidden =
      time.inFlight > 0 ? 1 - time.exposed / time.inFlight : 0;
  std::printf("communication: %.2f ms in flight, %.2f ms exposed (%.0f %% "
              "hidden)\n",
              1e3 * time.inFlight, 1e3 * time.exposed, 1e2 * hidden);
}

void printMemory(const RankMemory &memory) {
  std::printf(
      "memory of the largest rank: %s (parameters %s, state %s, "
      "gradients %s, inputs %s, arena %s, scratch %s, communication "
      "%s)\n",
      formatBytes(memory.total()).c_str(),
      formatBytes(memory.parameters).c_str(), formatBytes(memory.state).c_str(),
      formatBytes(memory.gradients).c_str(), formatBytes(memory.inputs).c_str(),
      formatBytes(memory.arena).c_str(), formatBytes(memory.device).c_str(),
      formatBytes(memory.communication).c_str());
  if (memory.offloaded > 0)
    std::printf("in scratch files: %s a rank\n",
                formatBytes(memory.offloaded).c_str());
  if (memory.staging > 0)
    std::printf("besides, while weights are loaded and prepared, tensor by "
                "tensor: %s a rank\n",
                formatBytes(memory.staging).c_str());
  if (memory.code > 0)
    std::printf("besides, code, libraries and recorded steps of its GPU: %s; "
                "planned are at most %s\n",
                formatBytes(memory.code).c_str(),
                formatBytes(optimus_support::kGpuCodeBytes).c_str());
  if (memory.snapshot > 0)
    std::printf("snapshot of a checkpoint that is written behind steps: %s a "
                "process, on the host\n",
                formatBytes(memory.snapshot).c_str());
}

void printPaging(const PagingTime &paging) {
  std::printf("paging: %s fetched and %s stored a step; %.2f ms copying, %.2f "
              "ms exposed (%.0f %% hidden)\n",
              formatBytes(paging.bytesIn).c_str(),
              formatBytes(paging.bytesOut).c_str(), 1e3 * paging.seconds,
              1e3 * paging.exposed, 1e2 * paging.hiddenShare());
}

} // namespace optimus_run
