//===- OutOfMemory.cpp - What is said where memory runs out ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"
#include "Nvml.h"

#include "optimus-support/FormatBytes.h"

#include <algorithm>
#include <unistd.h>

namespace optrt::cuda {

using optimus_support::formatBytes;

/// "python (process 4711) holds 12 GiB".
static std::string describeHolder(const MemoryHolder &holder) {
  std::string who = holder.process == unsigned(getpid()) ? "this process"
                    : holder.name.empty() ? concat("process ", holder.process)
                                          : concat(holder.name, " (process ",
                                                   holder.process, ")");
  return who + (holder.bytes ? " holds " + formatBytes(*holder.bytes)
                             : " holds what NVML does not know");
}

static std::string describeHolders(const char *pciAddress) {
  StatusOr<std::vector<MemoryHolder>> holders = findMemoryHolders(pciAddress);
  if (!holders.ok())
    return "who holds the rest is not known: " + holders.status().message();
  if (holders->empty())
    return "NVML knows of no process that holds the rest";
  constexpr size_t kMost = 8;
  std::string text = "of the GPU's memory ";
  for (size_t i = 0; i != std::min(holders->size(), kMost); ++i)
    text += concat(i == 0 ? "" : ", ", describeHolder((*holders)[i]));
  if (holders->size() > kMost)
    text += concat(", and ", holders->size() - kMost, " others hold less");
  return text;
}

Status CudaDevice::outOfMemory(const std::string &what) const {
  size_t free = 0, total = 0;
  (void)driver.api().memGetInfo(&free, &total);
  char address[32] = "";
  (void)driver.api().deviceGetPciAddress(address, sizeof(address), number);
  std::string plan;
  if (!plannedMemory().empty())
    plan =
        concat(plannedMemory(), ", and ", formatBytes(kProductWorkspaceBytes),
               " where it multiplies matrices; code, libraries and recorded "
               "steps, for which ",
               formatBytes(optimus_support::kGpuCodeBytes),
               " are planned, have taken ", formatBytes(codeBytes()));
  return unavailable(concat(what, " on ", gpu.name, ", where ", free, " of ",
                            total,
                            " bytes are free: ", driver.describe(kOutOfMemory)))
      .withAdvice(plan)
      .withAdvice(describeHolders(address))
      .withAdvice("end what else uses the GPU, or compile the model with a "
                  "smaller --batch, --recompute, --memory-budget or a larger "
                  "--mesh");
}

} // namespace optrt::cuda
