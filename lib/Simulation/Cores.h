//===- Cores.h - Ranks that share the cores of machines ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_CORES_H
#define OPTIMUS_LIB_SIMULATION_CORES_H

#include "Contention.h"
#include "Folding.h"
#include "Turns.h"

#include "optimus/Prices/MachinePrices.h"
#include "optimus/Simulation/Cluster.h"

#include <deque>
#include <optional>

namespace optimus_simulation {

/// The cores of machines. Ranks want them while they compute, and collectives
/// for the processors' part of them. Where all together want more than there
/// are, all go on slower alike, or take turns.
///
///   2 cores, 3 ranks that compute, a collective of 1 processor's second for
///   each of its seconds: all go on at half their speed
///
/// No more than its speed alone is given to any: what ran beside it when it was
/// measured is not counted again.
class Cores : public Contention {
public:
  /// With a cluster a node is a machine. By turns no rank stands for others.
  Cores(const optimus_prices::SharedCores &shared, const Folding &folding,
        int64_t numRanks, const std::vector<ClusterPlace> *places,
        bool byTurns);

  /// Whether one rank may stand for others that do the same: where all are on
  /// one machine, or each has one.
  static bool mayFold(const optimus_prices::SharedCores &shared,
                      int64_t numRanks, bool hasCluster);

  void compute(uint32_t actor, Picoseconds begin, Picoseconds seconds,
               double beside) override;
  void move(const Move &move) override;

  bool isIdle() const override {
    return turns ? turns->isIdle() : flows.isIdle();
  }
  Picoseconds getNext() override {
    return turns ? turns->getNext() : flows.getNext();
  }
  Picoseconds getTime() const override {
    return turns ? turns->getTime() : flows.getTime();
  }
  std::vector<End> advance() override;

  /// The part of the time for which the busiest machine's cores are busy.
  double getBusiest(Picoseconds seconds) const;

private:
  static constexpr uint32_t kMeeting = 0x80000000;

  void add(uint32_t number, Picoseconds begin, Picoseconds seconds,
           const LinkLoads &loads);

  const optimus_prices::SharedCores shared;
  bool isOne;
  size_t numMachines = 0;
  /// By actor: its machine, and what it loads there.
  std::vector<uint32_t> machines;
  std::vector<LinkLoads> computing;
  /// Of meetings under way and earlier ones; addresses stay.
  std::deque<LinkLoads> moving;
  SharedLinks flows;
  std::optional<Turns> turns;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_CORES_H
