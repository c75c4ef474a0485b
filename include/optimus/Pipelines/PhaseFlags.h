//===- PhaseFlags.h - The phases as a user asks for them --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PIPELINES_PHASEFLAGS_H
#define OPTIMUS_PIPELINES_PHASEFLAGS_H

#include "optimus/Pipelines/Phases.h"

#include "optimus-support/Status.h"

#include <optional>
#include <variant>

namespace mlir::optimus {

/// What a user says of the phases, as text: the flags of optimus-compile, or
/// the options of --optimus-pipeline. A name is empty where it is not given.
struct PhaseFlags {
  /// Before the names of flags in messages.
  StringRef dashes;
  /// Whether `strategy` and `recompute` may be "auto", and are chosen later.
  bool mayChoose = false;

  std::string mesh, strategy, optimizer, precision, weights, reducePrecision,
      schedule;
  std::string extraWorkspace, machineProfile, profile, move, panels, recompute;
  std::string offload, offloadTo, offloadBandwidth, offloadWindow;
  std::string target, attention, cpu, serial, sync, lora, lanes;
  /// Entries joined by semicolons.
  std::string layouts, trains;
  bool accumulate = false, noPad = false, deterministic = false;
  std::optional<bool> tuneProducts;
};

/// A flag as a command line declares it: optimus-compile and
/// --optimus-pipeline have the same ones, and lists of layouts of their own.
struct PhaseFlag {
  StringRef name;
  /// Of its value, in a help text; empty where it has none.
  StringRef value;
  std::variant<std::string PhaseFlags::*, bool PhaseFlags::*> member;
  StringRef help;
  /// What `mayChoose` adds to the help.
  StringRef choiceHelp = "";
};
ArrayRef<PhaseFlag> getPhaseFlags();

/// Reads them, each by itself and those that exclude each other. What is not
/// given has the default of PhaseOptions; so has `recompute` if it is "auto".
optimus_support::StatusOr<PhaseOptions>
readPhaseOptions(const PhaseFlags &flags);

/// Fills in the strategy if none is given, says what does not fit the mesh, and
/// reads the profile of a run.
optimus_support::Status completePhaseOptions(PhaseOptions &options,
                                             StringRef dashes);

} // namespace mlir::optimus

#endif // OPTIMUS_PIPELINES_PHASEFLAGS_H
