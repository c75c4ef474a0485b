//===- ProfileOutput.cpp - A simulation as a profile ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProfileOutput.h"

#include "profile/ProfileWriter.h"

#include "optimus-support/OutputFile.h"

#include <algorithm>
#include <set>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_support::okStatus;
using optimus_support::OutputFile;
using optimus_support::Status;
using optrt::CallRecord;
using optrt::CommandTimes;
using optrt::Profiled;

/// As the runtime's clock has it.
static CommandTimes toNanoseconds(CallTimes::Span span) {
  return {span.begin / 1000, span.end / 1000};
}

/// Its distinct functions, and the buffers that they read and write.
static Profiled describeProfiled(const Answer &answer) {
  const optrt::ModelLibrary &library = *answer.opened;
  const optrt::Manifest &manifest = library.manifest();
  Profiled profiled{.library = library};
  std::set<int64_t> held;
  std::set<std::string> called;
  for (const CallList &calls : answer.calls)
    called.insert(calls.begin(), calls.end());
  for (const auto *function :
       optimus_support::program::functionsOf(library.target())) {
    if (!called.contains(function->name))
      continue;
    auto &call = profiled.calls.emplace_back();
    call.function = manifest.findFunction(function->name);
    for (const auto &argument : function->arguments)
      call.buffers.push_back(*manifest.findBuffer(argument->buffer));
    held.insert(call.buffers.begin(), call.buffers.end());
  }
  profiled.held.assign(held.begin(), held.end());
  for (const Timeline &timeline : answer.simulation.timelines)
    profiled.ranks.push_back(static_cast<int>(timeline.rank));
  return profiled;
}

static CallRecord toRecord(const Profiled &profiled, int64_t rank,
                           const std::string &function,
                           const CallTimes &times) {
  CallRecord record;
  record.rank = static_cast<int>(rank);
  record.call =
      size_t(std::find_if(profiled.calls.begin(), profiled.calls.end(),
                          [&](const auto &call) {
                            return call.function->name == function;
                          }) -
             profiled.calls.begin());
  record.step = 1;
  record.times = toNanoseconds(times.call);
  for (const CallTimes::Span &span : times.commands)
    record.commands.push_back(toNanoseconds(span));
  for (const CallTimes::Transfer &one : times.transfers)
    record.transfers.push_back({one.command, toNanoseconds(one.span)});
  return record;
}

Status optimus_simulate::writeProfile(const Answer &answer,
                                      const std::string &path) {
  const Profiled profiled = describeProfiled(answer);
  const optrt::Manifest &manifest = answer.opened->manifest();
  OPTRT_ASSIGN_OR_RETURN(
      OutputFile file,
      OutputFile::open(path, {.executable = false, .isDatabase = true}));
  optrt::ProfileWriter writer(/*origin=*/0);
  OPTRT_RETURN_IF_ERROR(writer.open(file.temporaryPath())
                            .withContext("cannot write '" + path + "'"));
  OPTRT_RETURN_IF_ERROR(writer.describe(
      profiled,
      {{"library", answer.library},
       {"model_hash", manifest.modelHash},
       {"strategy", manifest.strategy},
       {"mesh", manifest.mesh.toString()},
       {"precision", std::string(toString(manifest.precision))},
       {"tf32", "no"},
       {"flush_subnormals", "no"},
       {"device", answer.target},
       {"backend", "simulated"},
       {"placement", "planned"},
       {"optimus", OPTIMUS_VERSION},
       {"processor",
        answer.machine.empty() ? "the built-in profile" : answer.machine},
       {"host", answer.cluster.empty() ? "simulated" : answer.cluster}}));
  for (const Timeline &timeline : answer.simulation.timelines)
    for (size_t call = 0; call != timeline.calls.size(); ++call)
      OPTRT_RETURN_IF_ERROR(writer.write(toRecord(
          profiled, timeline.rank, answer.getCalls(timeline.rank)[call],
          timeline.calls[call])));
  OPTRT_RETURN_IF_ERROR(writer.endStep());
  OPTRT_RETURN_IF_ERROR(writer.finish("finished"));
  return file.commit();
}
