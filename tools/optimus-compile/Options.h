//===- Options.h - What the user asked for ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_OPTIONS_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_OPTIONS_H

#include "Flags.h"

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Pipelines/Phases.h"

#include "optimus-support/Status.h"

#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::optimus {

/// What a training step is predicted to need.
struct StepNeeds {
  double ms = 0;
  int64_t peakBytes = 0;
};

/// Whether a phase may fail by what the user gave and not only by a fault of
/// ours; `recompute` is as it was given; it may name values that do not exist,
/// and so may the choice of offloading. A profile may be of another program,
/// and a library that is to compute all attention may not know a model's.
inline bool checksInput(const Phase &phase, llvm::StringRef recompute,
                        const PhaseOptions &options) {
  return phase.checksInput ||
         (phase.name == "schedule" &&
          !(options.profile.empty() && options.offload.empty())) ||
         (phase.name == "exec" && options.attention == "cudnn") ||
         (phase.name == "fuse" && recompute.contains(':'));
}

struct CompileOptions {
  /// What the phases need; `strategy` is empty until one is known. The machine
  /// profile is one that every phase can open, wherever its text came from.
  PhaseOptions phases;
  /// As it was given.
  std::string machineProfile;

  std::string input, output;
  bool report = false;
  /// Where the report goes as JSON, or "".
  std::string reportJson;
  /// With --target cuda: the architectures to make machine code for, whether
  /// there is code for an emulator, and the folder to write machine code to, or
  /// "".
  std::vector<std::string> gpuArchitectures;
  bool emulatesGpu = false;
  std::string cubinFolder;
  /// Phases; empty for none.
  std::string compileTo, compileFrom;
  std::string dumpFolder;

  /// With --strategy auto: of how many ranks meshes are weighed; 0 for the mesh
  /// that is given.
  int64_t ranks = 0;
  /// As it was given: a policy, "auto", "budget", ids of values or "".
  std::string recompute;
  std::optional<int64_t> memoryBudget;
  /// For the report: the same without recomputation, where there is some.
  std::optional<StepNeeds> withoutRecompute;

  bool isForGpu() const { return phases.isForGpu(); }
  /// That of the machine profile, once it was read.
  std::optional<GpuProfile> getGpu() const;
  /// Standard output, or standard error where an output goes there.
  llvm::raw_ostream &getReportStream() const;
  /// A GPU's kernels can be looked at without a library.
  bool writesLibrary() const {
    return compileTo.empty() &&
           !(isForGpu() && (output.empty() || output == "-"));
  }
  bool isAuto() const { return phases.strategy == "auto"; }
  /// Whether something is left to be chosen by prediction.
  bool chooses() const {
    return isAuto() || recompute == "auto" || memoryBudget.has_value();
  }
};

/// The names of the flags that are given; all three that say how products move
/// are "move".
llvm::StringSet<> getGiven(const CompileFlags &flags);

/// What the flags say, each checked by itself.
optimus_support::StatusOr<CompileOptions>
readCompileOptions(const CompileFlags &flags);

/// The file of a phase in the folder of --dump-phases-to.
std::string getDumpPath(const CompileOptions &options, StringRef phase);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_OPTIONS_H
