//===- MachineProfile.h - What a machine was measured to do -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The profiles of optimus/Prices, with errors as the compiler has them.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_MACHINEPROFILE_H
#define OPTIMUS_ANALYSIS_MACHINEPROFILE_H

#include "optimus/Prices/ReadMachineProfile.h"

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
using optimus_prices::isKnownProfile;
using optimus_prices::kDefaultGpuProfile;
using optimus_prices::LinkTier;
using optimus_prices::PackPoint;
using optimus_prices::ProductRates;

/// One that is read, as loadMachineProfile() and its two steps do.
struct MachineProfile : optimus_prices::MachineProfile {
  static llvm::Expected<MachineProfile> load(StringRef nameOrPath);
  static llvm::Expected<std::string> readText(StringRef nameOrPath);
  static llvm::Expected<MachineProfile> parse(StringRef json, StringRef name);
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_MACHINEPROFILE_H
