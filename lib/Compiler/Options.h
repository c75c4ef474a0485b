//===- Options.h - What the user asked for ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_OPTIONS_H
#define OPTIMUS_LIB_COMPILER_OPTIONS_H

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Compiler/Settings.h"
#include "optimus/Planning/LayoutChoice.h"

#include "optimus-support/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::optimus {

/// Of `phases` the strategy is empty until one is known, and the machine
/// profile is one that every phase can open, wherever its text came from.
struct CompileOptions : LayoutQuestion {
  /// As it was given.
  std::string machineProfile;

  std::string input, output;
  bool report = false;
  /// The machine of the report's times, where that is this one.
  std::optional<MachineProfile> ownMachine;
  std::string ownProfile; ///< its file
  /// Where the report goes as JSON, or "".
  std::string reportJson;
  /// Further profiles for the report, by the names that were given.
  std::vector<std::pair<std::string, MachineProfile>> alsoPriced;
  /// With --target cuda: the architectures to make machine code for, whether
  /// there is code for an emulator, and the folder to write machine code to, or
  /// "".
  std::vector<std::string> gpuArchitectures;
  bool emulatesGpu = false;
  std::string cubinFolder;
  /// Where code of kernels is kept for other programs, or "".
  std::string kernelCache;
  /// Phases; empty for none.
  std::string compileTo, compileFrom;
  std::string dumpFolder;

  /// Whether the memory budget is to be what a rank has where it runs.
  bool budgetsMachine = false;
  /// For the report: the same without recomputation, where there is some.
  std::optional<StepNeeds> withoutRecompute;
  /// For the report: what was weighed, where something was left to be chosen.
  std::vector<Candidate> layouts;
  std::vector<Finalist> finalists;

  bool isForGpu() const { return phases.isForGpu(); }
  bool isPlan() const { return phases.isPlan; }
  /// A GPU's kernels can be looked at without a library.
  bool writesLibrary() const {
    return compileTo.empty() &&
           !(isForGpu() && (output.empty() || output == "-"));
  }
  /// Of how many ranks the program is to be.
  int64_t getNumRanks() const {
    return ranks > 0 ? ranks : phases.mesh.getNumRanks();
  }
};

/// What the settings say, each checked by itself. The machine profile is not
/// read yet.
optimus_support::StatusOr<CompileOptions>
readCompileOptions(const CompileSettings &settings);

/// The file of a phase in the folder of --dump-phases-to.
std::string getDumpPath(const CompileOptions &options, StringRef phase);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_OPTIONS_H
