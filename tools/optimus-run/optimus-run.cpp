//===- optimus-run.cpp - Runs compiled models -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "ProcessEnd.h"

#include "optimus-runtime/Exception.h"
#include "optimus-runtime/Launcher.h"
#include "optimus-support/Process.h"

#include <cstdio>
#include <utility>

using namespace optrt;
using namespace optimus_run;

namespace {

int finish(const Status &status, bool speaks) {
  if (!status.ok() && speaks)
    printFailure(status);
  return status.exitCode();
}

/// Runs a command on the ranks of a job; returns the exit code.
int runCommand(const CommandLine &line, World &world) {
  if (line.subcommand == Subcommand::Eval)
    return finish(eval(line.eval, world), world.control->isRoot());
  if (line.subcommand == Subcommand::Forward)
    return finish(forward(line.forward, world), world.control->isRoot());
  if (line.subcommand == Subcommand::Generate)
    return finish(generate(line.generate, world), world.control->isRoot());
  if (line.subcommand == Subcommand::Score)
    return finish(score(line.score, world), world.control->isRoot());
  if (line.subcommand == Subcommand::Bench)
    return finish(bench(line.bench, world), world.control->isRoot());
  StatusOr<int> signal = line.lanes.empty() ? train(line.train, world)
                                            : trainLanes(line.lanes, world);
  // As a shell says that a signal ended a program.
  return signal.ok() ? (*signal ? 128 + *signal : 0)
                     : finish(signal.status(), world.control->isRoot());
}

/// The library and the ranks of a command that runs in a job.
std::pair<const std::string &, RankOptions &> jobOf(CommandLine &line) {
  switch (line.subcommand) {
  case Subcommand::Eval:
    return {line.eval.library, line.eval.ranks};
  case Subcommand::Forward:
    return {line.forward.library, line.forward.ranks};
  case Subcommand::Generate:
    return {line.generate.source.library, line.generate.source.ranks};
  case Subcommand::Score:
    return {line.score.source.library, line.score.source.ranks};
  case Subcommand::Bench:
    return {line.bench.library, line.bench.ranks};
  default:
    TrainOptions &train =
        line.lanes.empty() ? line.train : line.lanes.front().options;
    return {train.library, train.ranks};
  }
}

/// Joins the job, and runs a command in it.
int runJob(CommandLine &line, const Launcher &launcher) {
  const auto &[library, ranks] = jobOf(line);
  // A file that is not there is named where it is opened.
  if (StatusOr<LibraryFile> file = LibraryFile::copy(library); file.ok())
    ranks.file = *std::move(file);
  const JobProgram program{"optimus-run " OPTIMUS_VERSION,
                           [](const std::string &sentence) {
                             std::fprintf(stderr, "optimus-run: %s\n",
                                          sentence.c_str());
                           },
                           reportEnd};
  bool speaks = true;
  StatusOr<World> created = joinJob(line.job, program, launcher, ranks.file,
                                    ranks.timeoutSeconds, speaks);
  if (!created.ok())
    return finish(created.status(), speaks);
  World &world = *created;
  try {
    return runCommand(line, world);
  } catch (...) {
    // While there is a world: the other processes wait for this one.
    return finish(failJob(*world.control, statusOfException()),
                  /*speaks=*/true);
  }
}

int run(int argc, char **argv) {
  StatusOr<Launcher> launcher = findLauncher();
  if (!launcher.ok())
    return finish(launcher.status(), /*speaks=*/true);
  CommandLine line;
  bool speaks = launcher->isFirst();
  if (std::optional<int> code = parseCommandLine(argc, argv, speaks, line))
    return *code;
  // These use no other process.
  if (line.subcommand == Subcommand::Verify)
    return speaks ? finish(verify(line.verify), true) : 0;
  if (line.subcommand == Subcommand::Convert)
    return speaks ? finish(convert(line.convert), true) : 0;
  if (line.subcommand == Subcommand::Inspect)
    return speaks ? finish(inspect(line.inspect), true) : 0;
  launcher = findLauncherOf(line.job);
  if (!launcher.ok())
    return finish(launcher.status(), /*speaks=*/true);
  return runJob(line, *launcher);
}

} // namespace

int main(int argc, char **argv) {
  optimus_support::startProcess();
  prepareForFailures();
  StatusOr<int> ran = optimus_support::runOnLargeStack([&] {
    try {
      return run(argc, argv);
    } catch (...) {
      return finish(statusOfException(), /*speaks=*/true);
    }
  });
  int code = ran.ok() ? *ran : finish(ran.status(), /*speaks=*/true);
  // What was done is done, but not all of it was said.
  int lost = finish(optimus_support::finishStandardOutput(), /*speaks=*/true);
  return code ? code : lost;
}
