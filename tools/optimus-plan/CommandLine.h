//===- CommandLine.h - The flags of optimus-plan ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_PLAN_COMMANDLINE_H
#define OPTIMUS_TOOLS_OPTIMUS_PLAN_COMMANDLINE_H

#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include "optimus-support/Status.h"

#include <string>

namespace optimus_plan {

struct Arguments {
  std::string input;
  std::string output;
  std::string conflict;
  bool report = false;
  optimus_planning::Options options;
};

/// Reads the command line. Returns the text of --help or --version where it is
/// asked for.
optimus_support::StatusOr<std::string> parseCommandLine(int argc, char **argv,
                                                        Arguments &arguments);

} // namespace optimus_plan

#endif // OPTIMUS_TOOLS_OPTIMUS_PLAN_COMMANDLINE_H
