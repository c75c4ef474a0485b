//===- Cores.cpp - Ranks that share the cores of machines -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cores.h"

#include <algorithm>
#include <cmath>
#include <map>

using optimus_prices::SharedCores;

namespace optimus_simulation {

/// A flow has as many bytes as picoseconds, and this rate alone.
static constexpr double kPerSecond = 1e12;

/// Whole multiples add up to the same sum in any order.
static double roundLoad(double load) {
  return double(std::llround(load / kLeastLoad)) * kLeastLoad;
}

static int64_t getMachine(const SharedCores &shared,
                          const std::vector<ClusterPlace> *places,
                          int64_t rank) {
  return places ? (*places)[rank].node : rank / shared.ranksPerMachine;
}

static size_t countMachines(const SharedCores &shared, int64_t numRanks,
                            const std::vector<ClusterPlace> *places) {
  size_t count = 0;
  for (int64_t rank = 0; rank != numRanks; ++rank)
    count = std::max(count, size_t(getMachine(shared, places, rank)) + 1);
  return count;
}

bool Cores::mayFold(const SharedCores &shared, int64_t numRanks,
                    bool hasCluster) {
  return !hasCluster &&
         (shared.ranksPerMachine >= numRanks || shared.ranksPerMachine == 1);
}

Cores::Cores(const SharedCores &shared, const Folding &folding,
             int64_t numRanks, const std::vector<ClusterPlace> *places,
             bool byTurns)
    : shared(shared), numMachines(countMachines(shared, numRanks, places)),
      flows(std::vector<double>(numMachines, kPerSecond * shared.cores)) {
  isOne = numMachines == 1;
  if (byTurns)
    turns.emplace(numMachines, shared.cores);
  std::vector<int64_t> ranks(folding.getNumActors());
  for (int64_t rank = 0; rank != numRanks; ++rank)
    ++ranks[folding.getActor(rank)];
  for (uint32_t actor = 0; actor != ranks.size(); ++actor) {
    machines.push_back(
        uint32_t(getMachine(shared, places, folding.getRank(actor))));
    // Those that it stands for compute there at the same time, or each on a
    // machine of its own.
    computing.push_back(
        {{machines.back(),
          double(shared.threads) * double(isOne ? ranks[actor] : 1)}});
  }
}

void Cores::add(uint32_t number, Picoseconds begin, Picoseconds seconds,
                const LinkLoads &loads) {
  flows.add(begin, {.number = number,
                    .bytes = double(seconds),
                    .loads = &loads,
                    .most = kPerSecond});
}

void Cores::compute(uint32_t actor, Picoseconds begin, Picoseconds seconds,
                    double) {
  if (turns)
    turns->compute(actor, machines[actor], begin, seconds);
  else
    add(actor, begin, seconds, computing[actor]);
}

/// As many of a machine's members as its processors worked at once.
static std::vector<Turns::Share>
listShares(const std::vector<uint32_t> &machines, Picoseconds seconds,
           Picoseconds processors, const std::vector<Arrival> &members) {
  std::map<uint32_t, uint32_t> counts;
  for (const Arrival &one : members)
    ++counts[machines[one.rank]];
  std::vector<Turns::Share> shares;
  for (const auto &[machine, count] : counts) {
    const auto own =
        Picoseconds(double(processors) * count / double(members.size()));
    if (own <= 0)
      continue;
    const double most =
        std::ceil(double(own) / double(std::max<Picoseconds>(seconds, 1)));
    shares.push_back(
        {machine, uint32_t(std::clamp(most, 1.0, double(count))), own});
  }
  return shares;
}

void Cores::move(const Move &move) {
  if (turns)
    return turns->move(
        move.meeting | kMeeting, move.actor, move.begin, move.seconds,
        listShares(machines, move.seconds, move.processors, move.members));
  const double load =
      double(move.processors) / double(std::max<Picoseconds>(move.seconds, 1));
  std::map<uint32_t, double> byMachine;
  if (isOne)
    byMachine[0] = roundLoad(load * double(move.groups));
  else
    for (const Arrival &one : move.members)
      byMachine[machines[one.rank]] +=
          roundLoad(load / double(move.members.size()));
  LinkLoads &loads = moving.emplace_back();
  // A busy core does not slow a collective without use for it.
  for (const auto &[machine, sum] : byMachine)
    if (sum > 0)
      loads.push_back({machine, sum});
  add(move.meeting | kMeeting, move.begin, move.seconds, loads);
}

std::vector<Contention::End> Cores::advance() {
  std::vector<End> ends;
  for (uint32_t number : turns ? turns->advance() : flows.advance())
    ends.push_back({number & ~kMeeting, (number & kMeeting) != 0});
  return ends;
}

double Cores::getBusiest(Picoseconds seconds) const {
  double most = 0;
  for (uint32_t machine = 0; machine != numMachines; ++machine)
    most = std::max(most, turns ? double(turns->getBusy(machine))
                                : flows.getCarried(machine));
  return most /
         (double(std::max<Picoseconds>(seconds, 1)) * double(shared.cores));
}

} // namespace optimus_simulation
