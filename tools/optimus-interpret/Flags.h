//===- Flags.h - The flags of optimus-interpret -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_FLAGS_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_FLAGS_H

#include "Arguments.h"

#include "optimus-support/Status.h"

#include "llvm/Support/Path.h"

#include <string>
#include <vector>

namespace mlir::optimus {

/// The command line, with numbers as text; empty where they are not given.
struct Flags {
  std::string input = "-", function, inputs, outputs, compareWith, against;
  std::string seed = "1", vocabulary, checkLimit = "1000";
  std::vector<std::string> settings;
  bool prints = false, checksGradients = false;

  std::string getResultPath(StringRef name) const {
    SmallString<128> path{StringRef(outputs)};
    llvm::sys::path::append(path, name + ".npy");
    return path.str().str();
  }
};

/// Reads the command line. Returns the text of --help or --version where it is
/// asked for.
optimus_support::StatusOr<std::string>
parseFlags(std::vector<std::string> arguments, Flags &flags);

/// Where arguments come from.
optimus_support::StatusOr<ArgumentSources> readSources(const Flags &flags);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_FLAGS_H
