//===- HostFeatures.h - What this processor can do --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_HOSTFEATURES_H
#define OPTIMUS_RUNTIME_MODEL_HOSTFEATURES_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// Those of `features` (LLVM's names) missing on a processor whose
/// /proc/cpuinfo is `cpuInfo`, where compiled code would fail. Names that do
/// not concern instructions a compiler emits by itself, such as tuning flags,
/// never count as missing; nor does anything on a processor that is neither x86
/// nor ARM.
std::vector<std::string> missingFeatures(std::span<const std::string> features,
                                         std::string_view cpuInfo);

/// Adds avx10_1 to avx10_`version` to the flags of a /proc/cpuinfo: Linux lists
/// the parts of AVX10, but not its versions.
std::string addAvx10(std::string cpuInfo, unsigned version);

/// The text of this machine's /proc/cpuinfo with what Linux leaves out of it;
/// empty if there is none.
std::string describeHost();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_HOSTFEATURES_H
