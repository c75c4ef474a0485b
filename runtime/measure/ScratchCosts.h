//===- ScratchCosts.h - What copies to a scratch file take ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_SCRATCHCOSTS_H
#define OPTIMUS_RUNTIME_MEASURE_SCRATCHCOSTS_H

#include "optimus-runtime/Status.h"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace optrt {

/// Of one direction: bytes a second, and seconds of a processor a byte.
struct ScratchCost {
  double bytesPerSecond = 0, processorSeconds = 0;
};

/// Out of a scratch file into memory, and the other way.
struct ScratchCosts {
  ScratchCost in, out;
};

/// The section "scratch" of a machine profile.
nlohmann::ordered_json scratchEntry(const ScratchCosts &costs);

/// Times a thread that reads from a file of the folder while another one writes
/// to it, past the system's cache and from huge pages, as a step does both: the
/// medians of rounds. Takes some tenths of a second.
///
/// Errors: Unavailable where the folder or its disk has no room.
StatusOr<ScratchCosts> measureScratchCosts(const std::string &folder,
                                           int rounds);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_SCRATCHCOSTS_H
