//===- Simulator.cpp - All ranks of a program, in time ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/Simulator.h"

#include "Cores.h"
#include "Devices.h"
#include "Ranks.h"

#include <algorithm>
#include <optional>
#include <set>

using namespace optimus_support::program;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::Status;
using optimus_support::StatusOr;

namespace optimus_simulation {

/// The first rank that a meeting lacks.
static int64_t findMissing(const TimedProgram &program,
                           const Meeting &meeting) {
  auto hasCome = [&](int64_t rank) {
    return std::any_of(meeting.arrivals.begin(), meeting.arrivals.end(),
                       [&](const Arrival &one) { return one.rank == rank; });
  };
  if (meeting.key.second != kNoMeeting)
    return hasCome(meeting.key.first) ? meeting.key.second : meeting.key.first;
  const optimus_support::Mesh &mesh = program.getMesh();
  for (int64_t rank = meeting.key.first; rank != mesh.numRanks(); ++rank)
    if (mesh.firstOfGroup(rank, program.getAxes()[meeting.key.axes]) ==
            meeting.key.first &&
        !hasCome(rank))
      return rank;
  return meeting.key.first;
}

/// Names the first ranks that have not ended, each with its command.
static Status describeDeadlock(const TimedProgram &program,
                               const Ranks &ranks) {
  constexpr int kMostNamed = 4;
  std::string text;
  int64_t count = 0;
  for (int64_t rank = 0; rank != ranks.getNumRanks(); ++rank) {
    if (ranks.hasEnded(rank) || ++count > kMostNamed)
      continue;
    const Position at = ranks.getPosition(rank);
    const TimedFunction &function = ranks.getFunction(rank, at.call);
    const TimedCommand &command = function.commands[at.command];
    const uint32_t awaited =
        command.kind == TimedCommand::Wait && command.awaited != kNone
            ? command.awaited
            : at.command;
    text +=
        concat(text.empty() ? "" : "; ", "rank ", rank, " waits in ",
               function.source->name, " for ",
               describe(program.getTarget(), *function.table, *function.source,
                        awaited),
               ", to which rank ",
               findMissing(program, ranks.getMeeting(ranks.getAwaited(rank))),
               " does not come");
  }
  return invalidArgument(concat(
      count, " ranks wait for ever: ", text,
      count > kMostNamed ? concat("; and ", count - kMostNamed, " others")
                         : ""));
}

/// The busiest first.
static std::vector<LinkUse> listLinks(const Network &network,
                                      const Ranks &ranks, int64_t steps,
                                      Picoseconds step) {
  std::vector<LinkUse> uses;
  for (uint32_t link = 0; link != network.getNumLinks(); ++link)
    if (const double bytes = ranks.getCarried(link); bytes > 0)
      uses.push_back({network.getName(link),
                      bytes / double(steps) /
                          (network.getCapacity(link) * double(step) * 1e-12)});
  std::stable_sort(
      uses.begin(), uses.end(),
      [](const LinkUse &a, const LinkUse &b) { return a.share > b.share; });
  return uses;
}

/// Whether the calls of a rank end while something is carried that they wait
/// for, too.
static bool isCarriedOver(const TimedProgram &program, const CallList &calls,
                          int64_t rank) {
  std::set<uint32_t> awaited, open;
  for (const std::string &call : calls)
    for (const TimedCommand &command :
         program.getFunction(rank, call).commands) {
      if (command.carried == 0)
        continue;
      if (command.kind != TimedCommand::Wait)
        open.insert(command.carried);
      else if (open.erase(command.carried) == 0)
        awaited.insert(command.carried);
    }
  return std::any_of(open.begin(), open.end(),
                     [&](uint32_t one) { return awaited.contains(one); });
}

static bool hasMessages(const TimedProgram &program) {
  for (const ExposureName &name : program.getExposures())
    if (name.kind == "send" || name.kind == "receive")
      return true;
  return false;
}

/// The times of all ranks are those of their actors.
static Simulation summarize(const TimedProgram &program, const Ranks &ranks,
                            const Folding &folding) {
  Simulation result;
  for (int64_t rank = 0; rank != program.getMesh().numRanks(); ++rank) {
    result.ranks.push_back(ranks.getTimes(folding.getActor(rank)));
    if (result.ranks[rank].end > result.ranks[result.slowest].end)
      result.slowest = rank;
  }
  result.last = result.ranks[result.slowest];
  const uint32_t slowest = folding.getActor(result.slowest);
  result.parts = ranks.getParts(slowest);
  result.exposures = ranks.getExposures(slowest);
  return result;
}

StatusOr<Simulation> simulate(const TimedProgram &program,
                              const CallList &calls, const WhatIf &whatIf,
                              const SimulationOptions &options) {
  return simulateTables(
      program, std::vector<CallList>(program.getTarget().tables.size(), calls),
      whatIf, options);
}

StatusOr<Simulation> simulateTables(const TimedProgram &program,
                                    const std::vector<CallList> &calls,
                                    const WhatIf &whatIf,
                                    const SimulationOptions &options) {
  std::optional<Network> network;
  std::optional<std::vector<ClusterPlace>> places;
  Cluster cluster;
  if (options.cluster) {
    cluster = *options.cluster;
    if (options.everyMessage && !cluster.measured.empty())
      return invalidArgument("expected a cluster without measured collectives, "
                             "since every message is simulated");
    changeNetwork(cluster, whatIf.network);
    OPTRT_ASSIGN_OR_RETURN(places, placeRanks(cluster, program.getMesh()));
    network.emplace(cluster, *places, program);
  }
  const int64_t numRanks = program.getMesh().numRanks();
  const auto &shared = program.getSharedCores();
  const bool everyMessage = network && options.everyMessage;
  const bool byTurns = program.takesTurns() && !network;
  const bool fold =
      options.fold && !everyMessage && !hasMessages(program) && !byTurns &&
      (!shared || Cores::mayFold(*shared, numRanks, places.has_value()));
  const Folding folding(program, whatIf, fold, network ? &*network : nullptr);
  std::optional<FoldedNetwork> folded;
  if (network)
    folded.emplace(*network, folding, everyMessage);
  std::optional<Cores> cores;
  if (shared)
    cores.emplace(*shared, folding, numRanks, places ? &*places : nullptr,
                  byTurns);
  const bool slows = program.getInterference() && !cores;
  if (slows && everyMessage)
    return invalidArgument("expected a machine profile without interference, "
                           "which is of whole collectives, since every message "
                           "is simulated");
  // Ranks of an actor make the same calls.
  bool isTwice = false;
  for (uint32_t actor = 0; actor != folding.getNumActors(); ++actor) {
    const int64_t rank = folding.getRank(actor);
    isTwice |= isCarriedOver(program, calls[program.getTable(rank)], rank);
  }
  if (isTwice && options.slack)
    return invalidArgument("slack is found of steps that leave nothing for the "
                           "next one to wait for; this one carries collectives "
                           "over its end");
  const int64_t steps = isTwice ? 2 : 1;
  Ranks ranks(program, calls, isTwice, whatIf, folding,
              folded ? &*folded : nullptr, cores ? &*cores : nullptr, slows,
              options);
  if (!ranks.run()) {
    if (ranks.takesTooLong())
      return invalidArgument("expected times of at most a day, which all "
                             "together take longer");
    // Ranks are named where each is its own.
    if (fold)
      return simulateTables(program, calls, whatIf,
                            {.cluster = options.cluster, .fold = false});
    return describeDeadlock(program, ranks);
  }
  Simulation result = summarize(program, ranks, folding);
  result.simulatedRanks = ranks.getNumRanks();
  result.events = ranks.countEvents();
  if (whatIf.overlap != Overlap::Perfect) {
    result.criticalPath =
        findCriticalPath(program, ranks, folding.getActor(result.slowest));
    if (options.slack)
      result.slack = findSlack(ranks, folding, result.getStep());
  }
  for (uint32_t actor = 0; options.record && actor != folding.getNumActors();
       ++actor)
    result.timelines.push_back(
        {folding.getRank(actor), ranks.getCountedCalls(actor)});
  if (network)
    result.links = listLinks(*network, ranks, steps, result.getStep());
  auto addProtocol = [&](const Protocol &protocol) {
    if (const int64_t count = ranks.countTaken(protocol))
      result.protocols.push_back({protocol.name, count / steps});
  };
  for (const Protocol &protocol : cluster.protocols)
    addProtocol(protocol);
  addProtocol(getMeasuredProtocol());
  if (cores)
    result.cores = cores->getBusiest(result.getStep()) / double(steps);
  return result;
}

} // namespace optimus_simulation
