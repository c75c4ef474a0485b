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
             int64_t numRanks, const std::vector<ClusterPlace> *places)
    : shared(shared), numMachines(countMachines(shared, numRanks, places)),
      flows(std::vector<double>(numMachines, kPerSecond * shared.cores)) {
  isOne = numMachines == 1;
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
  add(actor, begin, seconds, computing[actor]);
}

void Cores::move(const Move &move) {
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
  for (uint32_t number : flows.advance())
    ends.push_back({number & ~kMeeting, (number & kMeeting) != 0});
  return ends;
}

double Cores::getBusiest(Picoseconds seconds) const {
  double most = 0;
  for (uint32_t machine = 0; machine != numMachines; ++machine)
    most = std::max(most, flows.getCarried(machine));
  return most /
         (double(std::max<Picoseconds>(seconds, 1)) * double(shared.cores));
}

} // namespace optimus_simulation
