//===- Turns.h - Ranks that take turns on cores -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_TURNS_H
#define OPTIMUS_LIB_SIMULATION_TURNS_H

#include "optimus/Simulation/TimedProgram.h"

#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace optimus_simulation {

/// Machines with fewer cores than ranks. A rank has a core until it waits, or
/// for a slice of time where others want it; then the one that has waited the
/// longest for a core gets it.
///
///   2 cores, 3 ranks compute 2 each and then meet: two from 0 to 2, the third
///   from 2 to 4, beside an idle core
///
/// The processors' part of a meeting comes before all else, on its members'
/// cores; the one in wait for it goes on without giving its core away.
class Turns {
public:
  Turns(size_t numMachines, int64_t coresPerMachine);

  /// Part of a meeting's work on a machine, by so many of its ranks at once.
  struct Share {
    uint32_t machine, workers;
    Picoseconds processors;
  };

  /// An actor goes on, or asks for a core, from a time on.
  void compute(uint32_t actor, uint32_t machine, Picoseconds begin,
               Picoseconds seconds);
  /// It takes `seconds` at least. `actor` waits for it on a core.
  void move(uint32_t number, uint32_t actor, Picoseconds begin,
            Picoseconds seconds, const std::vector<Share> &shares);

  bool isIdle() const;
  /// When something ends or a core changes hands. Not of what is idle.
  Picoseconds getNext();
  Picoseconds getTime() const { return now; }
  /// Goes on to then; the numbers of what has ended.
  std::vector<uint32_t> advance();

  /// For how long the cores of a machine were busy, all together.
  Picoseconds getBusy(uint32_t machine) const { return machines[machine].busy; }

private:
  /// Whose turn it is: `number` ends, or a part of its meeting.
  struct Job {
    uint32_t number, actor;
    bool isPart;
    Picoseconds left;
  };
  struct Core {
    /// Who may go on at once.
    uint32_t actor;
    bool isBusy = false;
    Job job = {};
    /// When its present job began, and the turn of the present actor.
    Picoseconds since = 0, turn = 0;
  };
  struct Machine {
    std::vector<Core> cores;
    std::deque<Job> queue;
    Picoseconds busy = 0;
  };
  struct Meeting {
    uint32_t parts = 0;
    Picoseconds end = 0;
  };

  void run(Core &core, const Job &job);
  /// Gives cores without work to those in wait.
  void dispatch();
  void stop(Machine &machine, Core &core);
  void endPart(const Job &job);

  Picoseconds now = 0;
  std::vector<Machine> machines;
  std::map<uint32_t, Meeting> meetings;
  /// Meetings that end by themselves, and jobs of a machine to come.
  std::multimap<Picoseconds, uint32_t> timers;
  std::multimap<Picoseconds, std::pair<uint32_t, Job>> coming;
  std::vector<uint32_t> ended;
};

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_TURNS_H
