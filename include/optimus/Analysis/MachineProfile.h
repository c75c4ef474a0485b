//===- MachineProfile.h - What a machine was measured to do -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `optimus-run bench --gemm` and `--comm` write a profile as JSON;
// docs/cost-model.md describes the file. Those of some GPUs have names and come
// with the compiler. Times are seconds, sizes bytes.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_MACHINEPROFILE_H
#define OPTIMUS_ANALYSIS_MACHINEPROFILE_H

#include "optimus/Prices/MachineProfile.h"

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::optimus {

using optimus_prices::AttentionPoint;
using optimus_prices::AttentionRates;
using optimus_prices::CollectiveProfile;
using optimus_prices::CommunicationProfile;
using optimus_prices::ComputeProfile;
using optimus_prices::GemmPoint;
using optimus_prices::GpuProfile;
using optimus_prices::HostLink;
using optimus_prices::LinkTier;
using optimus_prices::PackPoint;
using optimus_prices::ProductRates;

/// One that is read.
struct MachineProfile : optimus_prices::MachineProfile {
  /// Reads a profile: one that has a name and comes with the compiler, or a
  /// file. An error names the file and what is wrong with it. Without a name,
  /// the built-in profile: one core at 90 GFLOP/s and links of 4 GB/s.
  static llvm::Expected<MachineProfile> load(StringRef nameOrPath);
  /// load() in two steps.
  static llvm::Expected<std::string> readText(StringRef nameOrPath);
  static llvm::Expected<MachineProfile> parse(StringRef json, StringRef name);
};

/// Whether a name is one of a profile that comes with the compiler: that of a
/// GPU, "h100" where each node has one, "h100x8" where each has eight.
bool isKnownProfile(StringRef name);

/// What is used for GPUs where no profile is named.
inline constexpr llvm::StringLiteral kDefaultGpuProfile = "h100x8";

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_MACHINEPROFILE_H
