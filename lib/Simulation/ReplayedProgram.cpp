//===- ReplayedProgram.cpp - A program with the times of a run --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReplayedStep.h"

#include "optimus/Simulation/TimedProgram.h"

#include <algorithm>
#include <unordered_map>

using namespace optimus_support::program;
using optimus_prices::RunProfile;

namespace optimus_simulation {

/// Gives the commands of ranks their times in a step of a run.
class StepTimes {
public:
  StepTimes(TimedProgram &program, std::vector<ReplayedRank> ranks)
      : program(program), ranks(std::move(ranks)) {
    // Ranks without records did what the others did.
    others.commands.resize(program.run->getProfile().commands.size());
    for (const ReplayedRank &rank : this->ranks)
      for (size_t place = 0; place != rank.commands.size(); ++place)
        others.commands[place].add(rank.commands[place]);
  }

  void take() {
    program.ofRun.clear();
    program.edges.clear();
    for (int64_t rank = 0; rank != program.mesh.numRanks(); ++rank) {
      program.edges.push_back(
          {toPicoseconds(ranks[rank].begin), toPicoseconds(ranks[rank].after)});
      auto &list = program.ofRun.insert_or_assign(rank, program.getPriced(rank))
                       .first->second;
      for (TimedFunction &function : list)
        take(function, ranks[rank].commands.empty() ? others : ranks[rank]);
    }
    learn();
  }

private:
  /// Of a kind of command, as far as the run knows them.
  struct Known {
    double seconds = 0, formula = 0;
  };

  void take(TimedFunction &function, const ReplayedRank &rank);
  void take(TimedFunction &function, uint32_t number,
            const ReplayedCommand &found);
  void takeWait(TimedFunction &function, TimedCommand &timed,
                const ReplayedRank &rank);
  ReplayedCommand find(const TimedFunction &function, uint32_t number,
                       const ReplayedRank &rank) const;
  void gatherGroups(TimedFunction &function) const;
  void learn();
  Picoseconds scale(double seconds, const TimedCommand &timed) const {
    return toPicoseconds(seconds * timed.change * program.turns * timed.scale);
  }

  TimedProgram &program;
  std::vector<ReplayedRank> ranks;
  ReplayedRank others;
  std::map<std::string, Known> known;
};

ReplayedCommand StepTimes::find(const TimedFunction &function, uint32_t number,
                                const ReplayedRank &rank) const {
  ReplayedCommand sum;
  for (const size_t place : program.places.at(function.source)[number])
    sum.add(rank.commands[place]);
  return sum;
}

void StepTimes::take(TimedFunction &function, const ReplayedRank &rank) {
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    TimedCommand &timed = function.commands[number];
    if (timed.kind == TimedCommand::Wait)
      takeWait(function, timed, rank);
    else
      take(function, number, find(function, number, rank));
  }
  gatherGroups(function);
}

void StepTimes::takeWait(TimedFunction &function, TimedCommand &timed,
                         const ReplayedRank &rank) {
  if (timed.awaited == kNone)
    return;
  const ReplayedCommand found = find(function, timed.awaited, rank);
  if (found.waits == 0)
    return;
  timed.inserted +=
      toPicoseconds(found.beforeWait / double(found.waits) * program.turns);
  timed.insertedPart = program.partBetween;
}

void StepTimes::take(TimedFunction &function, uint32_t number,
                     const ReplayedCommand &found) {
  TimedCommand &timed = function.commands[number];
  const bool isOwn =
      timed.kind == TimedCommand::Compute || timed.kind == TimedCommand::Copy;
  if (found.count == 0 || (!isOwn && found.transfers == 0))
    return;
  double busy = found.busy / double(found.count);
  double seconds = busy;
  if (isOwn) {
    // Where it comes after copies, the rank waits for them by itself.
    const auto after =
        std::ranges::lower_bound(function.afterCopies, number, {},
                                 &std::pair<uint32_t, uint32_t>::first);
    if (timed.kind == TimedCommand::Compute &&
        after != function.afterCopies.end() && after->first == number)
      seconds = std::max(0.0, busy - found.gap / double(found.count));
  } else {
    const double transfers = double(found.transfers);
    seconds = found.under / transfers;
    timed.processors =
        scale(timed.change > 0 ? found.processors / transfers : 0, timed);
    timed.isAwaited = 2 * found.awaited > found.transfers;
    // Which messages belong together is not known, nor the late one of two.
    if (timed.kind != TimedCommand::Collective && timed.change > 0)
      seconds = std::min(seconds, timed.price / timed.change);
    timed.inserted += toPicoseconds(busy * program.turns);
    timed.insertedPart = program.partStarting;
  }
  timed.hasRun = true;
  timed.seconds = scale(seconds, timed);
  if (timed.change > 0) {
    Known &kind = known[program.getName(timed)];
    kind.seconds += seconds;
    kind.formula += timed.price / timed.change;
  }
}

/// In a run each began where the one before it ended; here all together.
void StepTimes::gatherGroups(TimedFunction &function) const {
  std::unordered_map<uint32_t, uint32_t> last;
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    TimedCommand &timed = function.commands[number];
    if (timed.kind != TimedCommand::Collective &&
        timed.kind != TimedCommand::Send && timed.kind != TimedCommand::Receive)
      continue;
    const uint32_t queue = function.source->commands[number]->queue;
    if (const auto before = last.find(queue);
        before != last.end() && timed.hasRun &&
        !function.commands[before->second].endsGroup)
      timed.seconds += function.commands[before->second].seconds;
    last[queue] = number;
  }
}

void StepTimes::learn() {
  for (auto &[rank, list] : program.ofRun)
    for (TimedFunction &function : list)
      for (TimedCommand &command : function.commands) {
        if (command.hasRun || command.kind == TimedCommand::Wait)
          continue;
        const auto found = known.find(program.getName(command));
        if (found == known.end() || found->second.formula <= 0)
          continue;
        command.seconds =
            toPicoseconds(double(command.seconds) * 1e-12 *
                          found->second.seconds / found->second.formula);
      }
}

/// Of several commands alike, each has its own time where the run has as many
/// in one function, else all have their mean.
static void pairAlike(std::vector<std::span<const size_t>> &places) {
  std::unordered_map<const size_t *, std::vector<size_t>> alike;
  for (size_t number = 0; number != places.size(); ++number)
    if (!places[number].empty())
      alike[places[number].data()].push_back(number);
  for (const auto &[first, numbers] : alike)
    if (numbers.size() == places[numbers.front()].size())
      for (size_t i = 0; i != numbers.size(); ++i)
        places[numbers[i]] = places[numbers[i]].subspan(i, 1);
}

void TimedProgram::beginRun() {
  partStarting = numberPart(kStarting);
  partBetween = numberPart(kBetween);
  steps = run->getProfile().middle;
  for (const std::vector<TimedFunction> &list : functions)
    for (const TimedFunction &function : list) {
      auto &found = places[function.source];
      for (const std::unique_ptr<CommandT> &command : function.source->commands)
        found.push_back(
            command->action.type == Action::Wait
                ? std::span<const size_t>()
                : run->find(optimus_prices::getKey(
                      target, *function.table, *function.source, *command)));
      pairAlike(found);
    }
  takeStep(0);
}

void TimedProgram::takeStep(size_t number) {
  if (!run)
    return;
  const RunProfile &profile = run->getProfile();
  StepTimes(*this, replayStep(profile, profile.steps.at(steps[number]),
                              {.mesh = mesh,
                               .prices = *unchanged,
                               .cores = cores,
                               .axesShareLink = sharesLink}))
      .take();
}

} // namespace optimus_simulation
