//===- CommandLine.h - The flags of optimus-simulate ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COMMANDLINE_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COMMANDLINE_H

#include "optimus-support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace optimus_simulate {

struct Arguments {
  /// Or with trials a program.
  std::string library;
  /// Each the flags of a plan.
  std::vector<std::string> trials;
  /// In place of a library: its name, ranks, and the bytes of the whole tensor
  /// or 0 for many sizes.
  std::string collective;
  int64_t ranks = 8, bytes = 0;
  /// At most one of the two.
  std::string function, sequence;
  int64_t microbatches = 1;
  std::string machineProfile, cluster, placement;
  /// A profile of the library, or of another plan of its program.
  std::string run;
  /// How collectives move on a cluster: "phases" or "every".
  std::string messages = "phases";
  std::vector<std::string> stragglers, scalings, removals, insertions, fusions,
      buckets, priorities;
  std::string network, device, overlap = "scheduled";
  /// Lines of the above.
  std::string whatIf;
  std::string failures;
  /// Also what 1 % more of each rate would give.
  bool sensitivity = false;
  /// Also how wrong the prediction may be.
  bool interval = false;
  /// Also by how much each command may be later.
  bool slack = false;
  std::string json, profile;
  /// In place of a library: the cluster to write as a file.
  std::string printedCluster;
};

/// Reads the command line. Returns the text of --help or --version where it is
/// asked for.
optimus_support::StatusOr<std::string> parseCommandLine(int argc, char **argv,
                                                        Arguments &arguments);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_COMMANDLINE_H
