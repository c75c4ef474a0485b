//===- Divergence.cpp - Why a step is not finite --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Divergence.h"

#include "JsonLine.h"
#include "TrainStep.h"
#include "TuningFile.h"
#include "tooling/NonFiniteFinder.h"
#include "tooling/StepScalars.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

using namespace optrt;

namespace optimus_run {
namespace {

using Mode = NonFiniteFinder::Mode;

/// Of this process's ranks; they end after the session.
using Finders = std::vector<std::unique_ptr<NonFiniteFinder>>;

struct FirstResult {
  NonFiniteFinder::Found found;
  int rank = 0;

  /// All ranks run the same commands.
  bool isBefore(const FirstResult &other) const {
    return std::tuple(found.call, found.command, rank) <
           std::tuple(other.found.call, other.found.command, other.rank);
  }
};

std::optional<FirstResult> earlier(const std::optional<FirstResult> &one,
                                   const std::optional<FirstResult> &other) {
  if (!one || !other)
    return one ? one : other;
  return other->isBefore(*one) ? other : one;
}

std::string writeResult(const std::optional<FirstResult> &result) {
  nlohmann::json record;
  if (result)
    record = {result->found.call, result->found.command,
              result->found.mode == Mode::Learn, result->found.what,
              result->rank};
  return toLine(record);
}

std::optional<FirstResult> parse(const std::string &text) {
  const nlohmann::json record = nlohmann::json::parse(text);
  if (record.is_null())
    return std::nullopt;
  return FirstResult{
      {record[0], record[1], record[2] ? Mode::Learn : Mode::Find, record[3]},
      record[4]};
}

/// Of all processes.
std::optional<FirstResult> firstOf(const Finders &finders,
                                   ControlPlane &control) {
  std::optional<FirstResult> first;
  for (std::size_t i = 0; i != finders.size(); ++i)
    if (const auto &found = finders[i]->first())
      first = earlier(first, FirstResult{*found, control.firstRank() +
                                                     static_cast<int>(i)});
  std::optional<FirstResult> result;
  for (const std::string &other : control.allGather(writeResult(first)))
    result = earlier(result, parse(other));
  return result;
}

Status begin(Session &session, const TrainOptions &options,
             const TrainFiles &files, ControlPlane &control,
             const SavedState &before) {
  if (before.folder.empty())
    return session.initialize(files.plan->seed);
  OPTRT_ASSIGN_OR_RETURN(
      const std::unique_ptr<Checkpoint> checkpoint,
      openCheckpoint(control, before.folder, options.weights.base, "--save"));
  OPTRT_RETURN_IF_ERROR(files.findIn(*checkpoint, before.goesOn, options));
  if (before.goesOn)
    return session.load(*checkpoint);
  return session.loadParameters(*checkpoint, files.plan->seed);
}

} // namespace

StatusOr<std::string> whyNotFinite(const TrainOptions &options,
                                   const TrainFiles &files, World &world,
                                   const SavedState &before, int64_t step) {
  ControlPlane &control = *world.control;
  const Hyperparameters &hyper = files.plan->hyperparameters;
  Finders finders(control.numLocalRanks());
  SessionOptions chosen = sessionOptions({}, options.ranks);
  chosen.sequences = {sequenceFor(hyper.microbatches)};
  chosen.documentEnd = files.documentEnd;
  chosen.observe = [&](const Rank &rank) -> CommandObserver * {
    auto &finder = finders[rank.rank - control.firstRank()];
    finder = std::make_unique<NonFiniteFinder>(rank);
    return finder.get();
  };
  OPTRT_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                         createSession(*files.library, world, std::move(chosen),
                                       options.ranks.tune));
  OPTRT_RETURN_IF_ERROR(
      control.agree(begin(*session, options, files, control, before)));
  TrainStep calls(files, *session, control, /*timesCommunication=*/false);
  for (int64_t now = before.step + 1; now <= step; ++now) {
    const Mode mode = now == step       ? Mode::Find
                      : now + 1 == step ? Mode::Learn
                                        : Mode::Rest;
    for (const std::unique_ptr<NonFiniteFinder> &finder : finders)
      finder->setMode(mode);
    OPTRT_RETURN_IF_ERROR(control.agree(calls.prepare(now)));
    setScalars(*session, hyper, now, hyper.rate.at(now, hyper.steps));
    StatusOr<StepOutputs> outputs = calls.run(now);
    if (!outputs.ok())
      return failJob(control, outputs.status());
  }
  const std::string where = concat("taken again from step ", before.step);
  const std::optional<FirstResult> first = firstOf(finders, control);
  if (!first)
    return concat(where, ", all its results are finite: the machine may be at "
                         "fault");
  return concat(where, ", the first result not finite is that of ",
                first->found.what, ", on rank ", first->rank, ", in step ",
                first->found.mode == Mode::Learn ? step - 1 : step);
}

} // namespace optimus_run
