//===- Ranks.cpp - What ranks do one after the other ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include <algorithm>
#include <cmath>

using namespace optimus_support::program;

namespace optimus_simulation {

Ranks::Ranks(const TimedProgram &program, const std::vector<CallList> &calls,
             bool isTwice, const WhatIf &whatIf, const Folding &folding,
             FoldedNetwork *network, Contention *cores, bool devicesSlow,
             const SimulationOptions &options)
    : program(program), whatIf(whatIf), folding(folding), network(network),
      contention(cores), records(options.record || options.slack),
      keepsDeeds(options.slack), ranks(folding.getNumActors()) {
  if (network)
    links.emplace(network->getCapacities());
  if (devicesSlow)
    contention = &devices.emplace(ranks.size(), links ? &*links : nullptr);
  if (network && network->hasEveryMessage())
    messages.emplace(network->getNetwork(), *links);
  for (uint32_t number = 0; number != ranks.size(); ++number) {
    Rank &rank = ranks[number];
    const int64_t lowest = folding.getRank(number);
    for (int time = 0; time != (isTwice ? 2 : 1); ++time) {
      rank.firstCounted = static_cast<uint32_t>(rank.functions.size());
      for (const std::string &call : calls[program.getTable(lowest)])
        rank.functions.push_back(&program.getFunction(lowest, call));
    }
    rank.factor = folding.getFactor(number);
    rank.now = program.getEdges(lowest).begin;
    rank.parts.resize(program.getParts().size());
    rank.exposures.resize(program.getExposures().size());
    rank.links.resize(program.getNumLinks());
    for (const TimedFunction *function : rank.functions) {
      if (contention) {
        rank.computed.emplace_back(function->commands.size());
        rank.inserted.emplace_back(function->commands.size());
      }
      if (records)
        rank.recorded.emplace_back().commands.resize(function->commands.size());
    }
  }
}

bool Ranks::run() {
  // The last of these goes first.
  for (auto number = static_cast<uint32_t>(ranks.size()); number-- != 0;)
    runnable.push_back(number);
  runRunnable();
  // Ranks have gone as far as they can, so that nothing begins before the next
  // event of the links, or the next collective by layers.
  for (;;) {
    const Picoseconds next = getNextFlow();
    if (!beginByLayer(next)) {
      if (next != kNever)
        advanceFlows();
      else if (!arriveInOrder())
        break;
    }
    settle();
    runRunnable();
  }
  for (int64_t rank = 0; rank != getNumRanks(); ++rank)
    if (!hasEnded(rank))
      return false;
  return true;
}

Picoseconds Ranks::getNextFlow() const {
  Picoseconds next = kNever;
  if (links && !links->isIdle())
    next = links->getNext();
  if (contention && !contention->isIdle())
    next = std::min(next, contention->getNext());
  return next;
}

void Ranks::advanceFlows() {
  ++events;
  const bool areCores =
      contention && !contention->isIdle() &&
      (!links || links->isIdle() || contention->getNext() <= links->getNext());
  if (!areCores) {
    for (uint32_t number : links->advance())
      if (!messages)
        end(number, links->getTime());
      else if (const auto meeting = messages->end(number))
        end(*meeting, links->getTime());
    return;
  }
  for (const Contention::End &one : contention->advance())
    if (one.isMeeting)
      end(one.number, contention->getTime());
    else
      endComputing(one.number);
}

/// What comes of it does not depend on the order of ranks.
void Ranks::runRunnable() {
  while (!runnable.empty()) {
    const uint32_t number = runnable.back();
    runnable.pop_back();
    advance(number);
    settle();
  }
}

RankTimes Ranks::getTimes(int64_t number) const {
  const Rank &rank = ranks[number];
  RankTimes times = rank.times;
  times.end = rank.now - rank.begin;
  times.carried.after = std::max<Picoseconds>(0, rank.carriedUntil - rank.now);
  if (whatIf.overlap == Overlap::Perfect) {
    for (const Link &link : rank.links)
      times.end = std::max(times.end, link.busy);
    times.exposed = times.end - (rank.now - rank.begin);
  }
  return times;
}

std::vector<CallTimes> Ranks::getCountedCalls(int64_t number) const {
  const Rank &rank = ranks[number];
  std::vector<CallTimes> calls(rank.recorded.begin() + rank.firstCounted,
                               rank.recorded.end());
  if (rank.firstCounted == 0)
    return calls;
  // Time begins with the first rank's first counted call.
  Picoseconds zero = rank.begin;
  for (const Rank &one : ranks)
    zero = std::min(zero, one.begin);
  auto shift = [&](CallTimes::Span &span) {
    span = {span.begin - zero, span.end - zero};
  };
  for (CallTimes &call : calls) {
    shift(call.call);
    for (CallTimes::Span &command : call.commands)
      shift(command);
    for (CallTimes::Transfer &transfer : call.transfers)
      shift(transfer.span);
  }
  return calls;
}

Picoseconds Ranks::getSeconds(int64_t rank, Position at) const {
  if (contention)
    return ranks[rank].computed[at.call][at.command];
  const TimedCommand &command = getFunction(rank, at.call).commands[at.command];
  return command.kind == TimedCommand::Compute ? getAlone(rank, command.seconds)
                                               : 0;
}

Picoseconds Ranks::getInserted(int64_t rank, Position at) const {
  return contention
             ? ranks[rank].inserted[at.call][at.command]
             : getAlone(
                   rank,
                   getFunction(rank, at.call).commands[at.command].inserted);
}

Picoseconds Ranks::getAlone(int64_t rank, Picoseconds seconds) const {
  const double factor = ranks[rank].factor;
  return factor == 1 ? seconds
                     : std::llround(std::min(double(seconds) * factor,
                                             double(kMostTime)));
}

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

void Ranks::advance(uint32_t number) {
  Rank &rank = ranks[number];
  rank.awaited = kNoMeeting;
  while (rank.position.call != rank.functions.size()) {
    const TimedFunction &function = *rank.functions[rank.position.call];
    if (rank.position.command == function.commands.size()) {
      endCall(rank);
      continue;
    }
    if (rank.now > kMostTime) {
      isTooLong = true;
      return;
    }
    const TimedCommand &command = function.commands[rank.position.command];
    awaitCopies(rank);
    if (!computeInserted(number, rank, command))
      return;
    const Picoseconds begin = rank.now;
    execute(number, rank, command);
    if (rank.isComputing)
      return;
    if (rank.awaited != kNoMeeting) {
      waiting[rank.awaited].push_back(number);
      beginHeld(number);
      return;
    }
    ++events;
    if (records)
      record(rank, command, begin);
    if (command.kind == TimedCommand::Compute)
      keep(Deed::Compute, rank);
    else if (command.kind == TimedCommand::Copy)
      keep(Deed::Copy, rank);
    ++rank.position.command;
    rank.hasInserted = false;
  }
}

void Ranks::keep(Deed::Kind kind, const Rank &rank, uint32_t meeting) {
  if (keepsDeeds)
    deeds.push_back({.kind = kind,
                     .rank = static_cast<uint32_t>(&rank - ranks.data()),
                     .position = rank.position,
                     .meeting = meeting});
}

bool Ranks::computeInserted(uint32_t number, Rank &rank,
                            const TimedCommand &command) {
  if (command.inserted == 0 || rank.hasInserted)
    return true;
  const Picoseconds seconds = getAlone(number, command.inserted);
  rank.isComputing = contention;
  if (contention)
    contention->compute(number, rank.now, seconds, command.beside);
  else
    endInserted(rank, seconds);
  return !contention;
}

void Ranks::endInserted(Rank &rank, Picoseconds seconds) {
  const Position at = rank.position;
  rank.hasInserted = true;
  compute(rank, rank.functions[at.call]->commands[at.command].insertedPart,
          seconds);
  keep(Deed::Insert, rank);
}

void Ranks::record(Rank &rank, const TimedCommand &command, Picoseconds begin) {
  CallTimes::Span &span =
      rank.recorded[rank.position.call].commands[rank.position.command];
  span = {begin, rank.now};
  if (command.kind == TimedCommand::Copy) {
    const Picoseconds done = rank.copies.at(rank.position.command);
    span = {done - command.seconds, done};
  }
}

void Ranks::execute(uint32_t number, Rank &rank, const TimedCommand &command) {
  const uint32_t at = rank.position.command;
  switch (command.kind) {
  case TimedCommand::Compute: {
    const Picoseconds seconds = getAlone(number, command.seconds);
    rank.isComputing = contention && seconds > 0;
    if (rank.isComputing)
      contention->compute(number, rank.now, seconds, command.beside);
    else
      compute(rank, command.name, seconds);
    return;
  }
  case TimedCommand::Copy:
    return startCopy(rank, command);
  case TimedCommand::Collective:
  case TimedCommand::Send:
  case TimedCommand::Receive:
    if (!rank.started.contains(at))
      start(number, rank, command);
    if (whatIf.overlap == Overlap::None && command.endsGroup &&
        wait(rank, rank.started.at(at), command))
      keep(Deed::Wait, rank, transfers[rank.started.at(at)].meeting);
    return;
  case TimedCommand::Wait: {
    auto &from = command.awaited == kNone ? rank.carried : rank.started;
    const auto found =
        from.find(command.awaited == kNone ? command.carried : command.awaited);
    // Of a sequence, starts were checked; one call may lack them.
    if (found == from.end() || !wait(rank, found->second, command))
      return;
    if (whatIf.overlap != Overlap::Perfect)
      keep(Deed::Wait, rank, transfers[found->second].meeting);
    freeTransfers.push_back(found->second);
    from.erase(found);
    return;
  }
  }
}

void Ranks::compute(Rank &rank, uint32_t part, Picoseconds seconds) {
  rank.now += seconds;
  rank.parts[part] += seconds;
  rank.times.computing += seconds;
  rank.computedInAll += seconds;
}

void Ranks::endComputing(uint32_t number) {
  Rank &rank = ranks[number];
  const Position at = rank.position;
  const Picoseconds begin = rank.now, seconds = contention->getTime() - begin;
  const TimedCommand &command = rank.functions[at.call]->commands[at.command];
  rank.isComputing = false;
  runnable.push_back(number);
  if (command.inserted > 0 && !rank.hasInserted) {
    rank.inserted[at.call][at.command] = seconds;
    return endInserted(rank, seconds);
  }
  rank.computed[at.call][at.command] = seconds;
  compute(rank, command.name, seconds);
  if (records)
    record(rank, command, begin);
  keep(Deed::Compute, rank);
  ++rank.position.command;
  rank.hasInserted = false;
}

void Ranks::awaitCopies(Rank &rank) {
  const auto &after = rank.functions[rank.position.call]->afterCopies;
  const TimedCommand &command =
      rank.functions[rank.position.call]->commands[rank.position.command];
  for (; rank.nextAfterCopy != after.size() &&
         after[rank.nextAfterCopy].first == rank.position.command;
       ++rank.nextAfterCopy) {
    const Picoseconds done = rank.copies.at(after[rank.nextAfterCopy].second);
    // A copy waits on its own queue.
    if (command.kind == TimedCommand::Copy) {
      Picoseconds &free = rank.copyQueues[command.name];
      free = std::max(free, done);
    } else if (done > rank.now) {
      rank.times.copying += done - rank.now;
      rank.now = done;
    }
  }
}

void Ranks::startCopy(Rank &rank, const TimedCommand &command) {
  Picoseconds &free = rank.copyQueues[command.name];
  free = std::max(free, rank.now) + command.seconds;
  rank.copies[rank.position.command] = free;
}

/// All of a call's copies are done at its end.
void Ranks::endCall(Rank &rank) {
  for (const auto &[queue, free] : rank.copyQueues)
    if (free > rank.now) {
      rank.times.copying += free - rank.now;
      rank.now = free;
    }
  const uint32_t call = rank.position.call;
  const auto number = int64_t(&rank - ranks.data());
  if (const Picoseconds after = getAfter(number, call); after > 0)
    compute(rank, program.getPartBetween(), after);
  if (records)
    rank.recorded[call].call = {
        call == 0 ? program.getEdges(folding.getRank(uint32_t(number))).begin
                  : rank.recorded[call - 1].call.end,
        rank.now};
  keep(Deed::EndCall, rank);
  rank.copies.clear();
  rank.started.clear();
  rank.nextAfterCopy = 0;
  rank.position = {rank.position.call + 1, 0};
  if (rank.position.call == rank.firstCounted)
    beginCounting(rank);
}

void Ranks::beginCounting(Rank &rank) {
  rank.begin = rank.now;
  rank.times = {};
  std::fill(rank.parts.begin(), rank.parts.end(), 0);
  std::fill(rank.exposures.begin(), rank.exposures.end(), Exposure());
}

} // namespace optimus_simulation
