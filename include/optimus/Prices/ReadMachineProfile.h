//===- ReadMachineProfile.h - Machine profiles as JSON ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `optimus-run bench --gemm` and `--comm` write a profile as JSON;
// docs/cost-model.md describes the file. Those of some GPUs have names and come
// with the tools. Times are seconds, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_READMACHINEPROFILE_H
#define OPTIMUS_PRICES_READMACHINEPROFILE_H

#include "optimus/Prices/MachineProfile.h"

#include "optimus-support/Status.h"

namespace optimus_prices {

/// Reads a profile: one that has a name and comes with the tools, or a file.
/// InvalidArgument names the file and its mistake. Without a name, and for
/// `none`, the built-in profile: one core at 90 GFLOP/s and links of 4 GB/s.
optimus_support::StatusOr<MachineProfile>
loadMachineProfile(const std::string &nameOrPath);

/// loadMachineProfile() in two steps.
optimus_support::StatusOr<std::string>
readMachineProfileText(const std::string &nameOrPath);
optimus_support::StatusOr<MachineProfile>
parseMachineProfile(std::string_view json, const std::string &name);

/// Whether a name is one of a profile that comes with the tools: that of a GPU,
/// "h100" where each node has one, "h100x8" where each has eight.
bool isKnownProfile(std::string_view name);

/// The name of the built-in profile.
inline constexpr std::string_view kNoProfile = "none";

/// What is used for GPUs where no profile is named.
inline constexpr std::string_view kDefaultGpuProfile = "h100x8";

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_READMACHINEPROFILE_H
