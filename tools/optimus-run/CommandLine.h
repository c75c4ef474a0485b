//===- CommandLine.h - What the user asked for ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDLINE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDLINE_H

#include "Commands.h"
#include "tooling/Job.h"

#include <optional>
#include <string>
#include <vector>

namespace optimus_run {

enum class Subcommand {
  Train,
  Eval,
  Forward,
  Generate,
  Score,
  Verify,
  Inspect,
  Convert,
  Bench
};

/// A parsed command line: the subcommand and its options.
struct CommandLine {
  Subcommand subcommand = Subcommand::Train;
  optrt::JobOptions job;
  TrainOptions train;
  std::vector<TrainLane> lanes; ///< of train --lanes; else empty
  EvalOptions eval;
  ForwardOptions forward;
  GenerateOptions generate;
  ScoreOptions score;
  VerifyOptions verify;
  ConvertOptions convert;
  InspectOptions inspect;
  BenchOptions bench;
};

/// Parses arguments into `line`. Returns a text to be printed in place of a
/// run.
optrt::StatusOr<std::string> parseArguments(std::vector<std::string> arguments,
                                            CommandLine &line);

/// Parses the arguments into `line`, with the runs of train --lanes. The
/// process's exit code when there is nothing to run: 0 after help, 1 after an
/// error. What is to be printed is printed only if `speaks`.
std::optional<int> parseCommandLine(int argc, char **argv, bool speaks,
                                    CommandLine &line);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDLINE_H
