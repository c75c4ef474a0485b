//===- SharedFlags.h - Options of several commands --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_SHAREDFLAGS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_SHAREDFLAGS_H

#include "CommandLine/Parser.h"
#include "Commands.h"
#include "tooling/Job.h"

#include <string>

namespace optimus_run {

/// A whole number in [least, most].
CLI::Validator inRange(int64_t least, int64_t most);

extern const CLI::Validator kSeed, kSteps, kSomeSteps;

/// How ranks meet. Returns --rank, which addRanks() asks for.
CLI::Option *addJob(CLI::App *app, optrt::JobOptions &job);
void addRanks(CLI::App *app, CLI::Option *rank, optrt::JobOptions &job);
/// What each rank computes with.
void addRankOptions(CLI::App *app, RankOptions &ranks);

CLI::Option *addLibrary(
    CLI::App *app, const std::string &name, std::string &path,
    const std::string &help = "Model library that optimus-compile wrote");
/// `evalData` is another file of the run, or null.
void addData(CLI::App *app, DataOptions &data,
             const std::string *evalData = nullptr);
/// Of a command with --load or --load-weights. Returns the option for folders
/// that are no checkpoints.
CLI::Option *addWeights(CLI::App &app, WeightFlags &weights);
/// The parameters of a command that does not train; `use` says in the help what
/// is done with them.
void addParameters(CLI::App *app, std::string &load, WeightFlags &weights,
                   uint64_t &seed, const std::string &use);
/// Of several functions of the kind that a command calls, one.
void addFunction(CLI::App &app, std::string &function, const char *kind);

/// The commands of generation.
void addGenerate(CLI::App &app, GenerateOptions &options,
                 optrt::JobOptions &job);
void addScore(CLI::App &app, ScoreOptions &options, optrt::JobOptions &job);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_SHAREDFLAGS_H
