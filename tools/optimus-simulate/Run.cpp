//===- Run.cpp - What a simulation knows from a run -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Run.h"

#include "optimus-runtime/ModelLibrary.h"

#include <algorithm>
#include <set>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_prices::MeasuredCommand;
using optimus_prices::RunProfile;
using optimus_prices::RunTimes;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::Status;
using optimus_support::StatusOr;

StatusOr<RunTimes>
optimus_simulate::readRun(const std::string &path,
                          const optrt::ModelLibrary &library) {
  auto run = RunTimes::load(path);
  if (!run.ok())
    return run.status().withContext("--run");
  const RunProfile &profile = run->getProfile();
  const optrt::Manifest &manifest = library.manifest();
  auto refuse = [&](const char *what, const std::string &expected,
                    const std::string &found) -> Status {
    return invalidArgument(concat(
        "--run: expected a profile of ", what, " ", expected, ", as '",
        library.path(), "' has it, found one of ", found, " in '", path, "'"));
  };
  if (profile.modelHash != manifest.modelHash)
    return refuse("the model", manifest.modelHash, profile.modelHash);
  if (profile.mesh != manifest.mesh.toString())
    return refuse("mesh", manifest.mesh.toString(), profile.mesh);
  if (profile.device != library.target().name)
    return refuse("the device", library.target().name, profile.device);
  return run;
}

RunShare optimus_simulate::countRun(const Answer &answer,
                                    const std::string &path,
                                    const RunProfile &run) {
  RunShare share;
  share.path = path;
  share.step = toPicoseconds(run.stepSeconds);
  const int64_t rank = answer.simulation.slowest;
  for (const std::string &call : answer.getCalls(rank))
    for (const TimedCommand &command :
         answer.timed->getFunction(rank, call).commands) {
      if (command.kind == TimedCommand::Wait)
        continue;
      ++share.commands;
      share.seconds += command.seconds;
      if (!command.hasRun)
        continue;
      ++share.measured;
      share.measuredSeconds += command.seconds;
    }
  return share;
}

/// Whether a run's commands of a function are those of a table, in their order.
static bool isSame(const RunProfile &run, const TimedProgram &timed,
                   const TimedFunction &function) {
  size_t next = 0;
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    if (function.commands[number].kind == TimedCommand::Wait)
      continue;
    while (next != run.commands.size() &&
           run.commands[next].function != function.source->name)
      ++next;
    if (next == run.commands.size())
      return false;
    const MeasuredCommand &one = run.commands[next++];
    const auto key = optimus_prices::getKey(timed.getTarget(), *function.table,
                                            *function.source,
                                            *function.source->commands[number]);
    if (one.number != number || one.kind != key.kind ||
        one.kernel != key.kernel || one.path != key.pathWithPhase ||
        one.bytes != key.bytes)
      return false;
  }
  return std::none_of(run.commands.begin() + next, run.commands.end(),
                      [&](const MeasuredCommand &one) {
                        return one.function == function.source->name;
                      });
}

bool optimus_simulate::isRunOf(const RunProfile &run, const Answer &answer) {
  const TimedProgram &timed = *answer.timed;
  if (timed.getTarget().tables.size() != 1)
    return false;
  const CallList &calls = answer.calls.front();
  if (int64_t(calls.size()) != run.callsPerStep)
    return false;
  std::set<std::string> ofRun;
  for (const MeasuredCommand &one : run.commands)
    ofRun.insert(one.function);
  const std::set<std::string> called(calls.begin(), calls.end());
  return called == ofRun &&
         std::ranges::all_of(called, [&](const std::string &name) {
           return isSame(run, timed, timed.getFunction(0, name));
         });
}
