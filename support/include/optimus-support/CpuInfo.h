//===- CpuInfo.h - What Linux says of the processor -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_CPUINFO_H
#define OPTIMUS_SUPPORT_CPUINFO_H

#include <optional>
#include <string>
#include <string_view>

namespace optimus_support {

/// The text of /proc/cpuinfo below systemRoot(); empty where there is none.
std::string readCpuInfo();

/// What follows the colon of the first line with this name, "flags" for
/// example, without spaces around it; nothing where no line has it.
std::optional<std::string_view> findCpuInfo(std::string_view cpuInfo,
                                            std::string_view name);

/// The name of the processor, on ARM "processor 0xd0c"; empty where Linux does
/// not say it.
std::string findProcessorName(std::string_view cpuInfo);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_CPUINFO_H
