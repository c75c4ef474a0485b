//===- optimus-run.cpp - Runs compiled models -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "optimus-runtime/Exception.h"
#include "optimus-runtime/Launcher.h"
#include "optimus-support/Process.h"
#include "optimus-support/TemporaryPath.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <functional>
#include <malloc.h>
#include <new>
#include <sys/resource.h>
#include <unistd.h>
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
  if (line.subcommand == Subcommand::Bench)
    return finish(bench(line.bench, world), world.control->isRoot());
  StatusOr<int> signal = train(line.train, world);
  // As a shell says that a signal ended a program.
  return signal.ok() ? (*signal ? 128 + *signal : 0)
                     : finish(signal.status(), world.control->isRoot());
}

/// The library and the ranks of a command that runs in a job.
std::pair<const std::string &, const RankOptions &>
jobOf(const CommandLine &line) {
  switch (line.subcommand) {
  case Subcommand::Eval:
    return {line.eval.library, line.eval.ranks};
  case Subcommand::Forward:
    return {line.forward.library, line.forward.ranks};
  case Subcommand::Bench:
    return {line.bench.library, line.bench.ranks};
  default:
    return {line.train.library, line.train.ranks};
  }
}

/// Joins the job, and runs a command in it.
int runJob(const CommandLine &line, const Launcher &launcher) {
  const auto &[library, ranks] = jobOf(line);
  bool speaks = true;
  StatusOr<World> created =
      joinJob(line.job, launcher, library, ranks.timeoutSeconds, speaks);
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
  // These two use no other process.
  if (line.subcommand == Subcommand::Verify)
    return speaks ? finish(verify(line.verify), true) : 0;
  if (line.subcommand == Subcommand::Inspect)
    return speaks ? finish(inspect(line.inspect), true) : 0;
  launcher = findLauncherOf(line.job);
  if (!launcher.ok())
    return finish(launcher.status(), /*speaks=*/true);
  return runJob(line, *launcher);
}

} // namespace

void optimus_run::printFailure(const Status &status) {
  std::fflush(stdout);
  if (status.code() == StatusCode::Internal)
    std::fprintf(stderr,
                 "optimus-run: internal error: %s [%s:%d]\nThis is a fault of "
                 "Optimus; please report it.\n",
                 status.message().c_str(), std::string(status.file()).c_str(),
                 status.line());
  else
    std::fprintf(stderr, "optimus-run: error: %s\n", status.message().c_str());
}

SessionOptions optimus_run::sessionOptions(std::vector<std::string> functions,
                                           const RankOptions &ranks) {
  SessionOptions options;
  options.functions = std::move(functions);
  options.threadsPerRank = ranks.threadsPerRank;
  options.device = ranks.device;
  options.placement = ranks.placement;
  options.eager = ranks.eager;
  options.nvtx = ranks.nvtx;
  options.computing = ranks.computing;
  options.scratchFolder = ranks.scratchFolder;
  options.timeoutSeconds = ranks.timeoutSeconds;
  // The rank to blame cannot be ended in an orderly way, nor those that wait.
  options.onStall = reportEnd;
  return options;
}

Status optimus_run::failJob(ControlPlane &control, Status status) {
  if (control.numLocalRanks() == control.size())
    return status;
  printFailure(status);
  optimus_support::removeTemporaries();
  control.exitJob(status.exitCode());
  return status;
}

std::string optimus_run::describeStrategy(const Manifest &manifest) {
  // A serial library may have no mesh.
  return manifest.mesh.numAxes() == 0
             ? manifest.strategy
             : manifest.strategy + " on " + manifest.mesh.toString();
}

std::string optimus_run::describeRanks(const World &world,
                                       const Session &session) {
  int threads = session.threadsPerRank(), ranks = world.control->size();
  return concat(ranks, ranks == 1 ? " rank (" : " ranks (",
                world.collectives->name(), "), ", threads,
                threads == 1 ? " thread each" : " threads each");
}

void optimus_run::printWarnings(const World &world, const Session &session) {
  if (!world.control->isRoot())
    return;
  for (const std::string &sentence :
       {session.oversubscription(), session.slowPrecision()})
    if (!sentence.empty())
      std::fprintf(stderr, "optimus-run: warning: %s: steps take longer\n",
                   sentence.c_str());
  for (const std::string &sentence :
       {session.mixedArithmetic(), session.refusedSetting(),
        world.control->size() > 1 ? world.collectives->overlapNotice() : ""})
    if (!sentence.empty())
      std::fprintf(stderr, "optimus-run: warning: %s\n", sentence.c_str());
}

static void prepareForWantOfMemory() {
  // The C library opens its unwinder when first needed, perhaps when no memory
  // is left.
  void *frame;
  backtrace(&frame, 1);
  // Every thread's heap would reserve 64 MiB of addresses, of which there are
  // few then.
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    mallopt(M_ARENA_MAX, 1);
}

/// An exception of a library's thread, or of a function that must not throw.
[[noreturn]] static void endAfterException() {
  if (!std::current_exception())
    std::abort();
  // What one thread lacks, others soon lack too.
  static std::atomic_flag isEnding;
  while (isEnding.test_and_set())
    pause();
  try {
    throw;
  } catch (const std::bad_alloc &error) {
    // Perhaps from making the message of another; this one takes no memory.
    std::fprintf(stderr,
                 "optimus-run: error: out of memory: %s; use fewer ranks or "
                 "threads, or allow more (ulimit -v)\n",
                 error.what());
    optimus_support::removeTemporaries();
    std::_Exit(1);
  } catch (...) {
  }
  const Status status = statusOfException();
  reportEnd(status, /*speaks=*/true);
  std::_Exit(status.exitCode());
}

static int runAndReport(int argc, char **argv) {
  try {
    return run(argc, argv);
  } catch (...) {
    return finish(statusOfException(), /*speaks=*/true);
  }
}

int main(int argc, char **argv) {
  optimus_support::startProcess();
  std::set_terminate(endAfterException);
  prepareForWantOfMemory();
  StatusOr<int> ran = optimus_support::runOnLargeStack(
      [&] { return runAndReport(argc, argv); });
  int code = ran.ok() ? *ran : finish(ran.status(), /*speaks=*/true);
  // What was done is done, but not all of it was said.
  int lost = finish(optimus_support::finishStandardOutput(), /*speaks=*/true);
  return code ? code : lost;
}
