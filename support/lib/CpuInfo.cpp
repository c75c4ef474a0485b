//===- CpuInfo.cpp - What Linux says of the processor ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/CpuInfo.h"

#include "optimus-support/ResourceLimits.h"
#include "optimus-support/Trim.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace optimus_support {

std::string readCpuInfo() {
  std::ifstream file(systemRoot() + "/proc/cpuinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::string_view> findCpuInfo(std::string_view cpuInfo,
                                            std::string_view name) {
  while (!cpuInfo.empty()) {
    const std::string_view line = cpuInfo.substr(0, cpuInfo.find('\n'));
    cpuInfo.remove_prefix(std::min(line.size() + 1, cpuInfo.size()));
    if (const size_t colon = line.find(':');
        colon != std::string_view::npos && trim(line.substr(0, colon)) == name)
      return trim(line.substr(colon + 1));
  }
  return std::nullopt;
}

std::string findProcessorName(std::string_view cpuInfo) {
  if (const auto name = findCpuInfo(cpuInfo, "model name"))
    return std::string(*name);
  const auto part = findCpuInfo(cpuInfo, "CPU part");
  return part ? "processor " + std::string(*part) : "";
}

} // namespace optimus_support
