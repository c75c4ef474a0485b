//===- Settings.h - What a compilation is asked for -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_COMPILER_SETTINGS_H
#define OPTIMUS_COMPILER_SETTINGS_H

#include "optimus/Pipelines/PhaseFlags.h"

#include "optimus-support/Status.h"

#include "llvm/ADT/StringSet.h"

#include <string>
#include <vector>

namespace mlir::optimus {

/// The flags of optimus-compile as text, as docs/optimus-compile.md has them;
/// empty where they are not given.
struct CompileSettings {
  CompileSettings() {
    phases.dashes = "--";
    phases.mayChoose = true;
  }

  PhaseFlags phases;
  /// Names of files; the input names the program in messages, too, and "-" is a
  /// standard stream.
  std::string input, output, reportJson;
  /// Machine profiles; a flag for each.
  std::vector<std::string> alsoPriced;
  std::string ranks, cluster, memoryBudget;
  std::string gpuArchitectures, cubinFolder, kernelCache;
  std::string compileTo, compileFrom, dumpFolder;
  bool report = false, plan = false;
  /// Names, without dashes, of flags given as false. It says more than silence
  /// where a program is recorded to be made with them.
  llvm::StringSet<> denied;

  /// Gives a flag its value, by its name without dashes; of one without a value
  /// it is "true" or "false".
  optimus_support::Status set(StringRef name, StringRef value);
  bool isGiven(StringRef name) const;

  /// Whether standard output is where the IR or the report as JSON goes.
  bool takesStandardOutput() const;
};

} // namespace mlir::optimus

#endif // OPTIMUS_COMPILER_SETTINGS_H
