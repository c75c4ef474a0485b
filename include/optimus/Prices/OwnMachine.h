//===- OwnMachine.h - The profile of this machine ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predictions without a named profile are of this machine: the first one has it
// measured by `optimus-run bench`, and its profile stays in the user's cache:
//
//   ~/.cache/optimus/machines/Intel-R-Xeon-R-Processor-2c-amx_bf16.json
//
// by processor, cores, quota and instructions, which the file names again in
// "machine", with the version of Optimus. Nothing but what is printed may
// depend on it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_OWNMACHINE_H
#define OPTIMUS_PRICES_OWNMACHINE_H

#include "optimus/Prices/MachineProfile.h"

#include <functional>
#include <optional>
#include <string>

namespace optimus_prices {

/// In place of the user's cache: another folder, or kNoProfile, with which
/// nothing is measured, kept or read.
inline constexpr const char *kMachineCacheVariable = "OPTIMUS_MACHINE_CACHE";

struct OwnMachine {
  MachineProfile profile;
  /// In the cache.
  std::string path;
};

/// The profile of this machine; nothing where it may not be kept, or could not
/// be measured. Of several processes that look for it at once one measures and
/// the others wait for it. `say` hears that it is measured, before, or why it
/// is not: a line without its end. Without `say` nothing is measured.
std::optional<OwnMachine>
findOwnMachine(const std::function<void(const std::string &)> &say = nullptr);

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_OWNMACHINE_H
