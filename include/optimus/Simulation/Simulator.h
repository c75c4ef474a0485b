//===- Simulator.h - All ranks of a program, in time ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank goes through its table in order. It computes one command after the
// other; collectives and messages go on beside, one after the other on a link
// of its own for each set of mesh axes (or one for all, by the machine's
// profile). A collective begins when its last member has started it and each
// member's link is free, and ends for all at once; a wait lasts until then.
//
// On a symmetric mesh, all of it is what optimus_prices::StepTimeline says of
// one rank. A rank later than its neighbours makes them wait.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SIMULATION_SIMULATOR_H
#define OPTIMUS_SIMULATION_SIMULATOR_H

#include "optimus/Simulation/Cluster.h"
#include "optimus/Simulation/TimedProgram.h"

namespace optimus_simulation {

/// What a rank waits for, of one kind on one set of axes.
struct Exposure {
  int64_t count = 0;
  Picoseconds all = 0;
  /// Of these: until the last neighbour has started it; while the link still
  /// carries earlier ones; because others are on the links of the cluster;
  /// because nothing is computed between start and wait. For the rest, what is
  /// computed there is too short.
  Picoseconds late = 0, queued = 0, shared = 0, idle = 0;

  Picoseconds getShort() const { return all - late - queued - shared - idle; }
};

/// Collectives that one step starts and the next one waits for.
struct CarriedTimes {
  int64_t count = 0;
  /// All of them, one after the other.
  Picoseconds all = 0;
  /// Until when they go on behind the end of the step.
  Picoseconds after = 0;
  /// What the step waits for those of the step before.
  Picoseconds exposed = 0;
};

struct RankTimes {
  Picoseconds end = 0;
  Picoseconds computing = 0;
  /// All of its collectives and messages, one after the other.
  Picoseconds communicating = 0;
  Picoseconds exposed = 0;
  /// Waiting for copies between memories.
  Picoseconds copying = 0;
  /// Part of what it communicates and waits for.
  CarriedTimes carried;
};

/// A stretch of the critical path.
struct CriticalPart {
  /// Of the command: its path in the model, or its kind where it has none; and
  /// the line of source with the most of its time, "gpt2.py:151".
  std::string path, line;
  /// "computing", or the axis of what is waited for.
  std::string what;
  Picoseconds seconds = 0;
};

/// A link of a cluster.
struct LinkUse {
  std::string name;
  /// Of what it could carry while the calls last.
  double share = 0;
};

/// How many collectives have taken a cluster's protocol, each group's counted.
struct ProtocolUse {
  std::string name;
  int64_t count = 0;
};

/// When a rank did what in a call.
struct CallTimes {
  struct Span {
    Picoseconds begin = 0, end = 0;
  };
  /// What is under way beside commands, from its start to its end.
  struct Transfer {
    uint32_t command = 0;
    Span span;
  };
  Span call;
  std::vector<Span> commands; ///< by number
  std::vector<Transfer> transfers;
};
struct Timeline {
  int64_t rank = 0;
  std::vector<CallTimes> calls;
};

/// By how much each command of a rank may end later without a longer step, as
/// long as others take the time they take; of a collective or a message, its
/// own end. 0 on the critical path.
struct Slack {
  int64_t rank = 0;
  /// By call and command; kNoSlack of waits, whose end another one decides.
  std::vector<std::vector<Picoseconds>> calls;
};
inline constexpr Picoseconds kNoSlack = -1;

struct Simulation {
  std::vector<RankTimes> ranks;
  /// The rank that ends last, the lowest of those, and its times. Of several
  /// steps these are the mean of those that ended last in each.
  int64_t slowest = 0;
  RankTimes last;
  /// Of that rank, by TimedProgram's names.
  std::vector<Picoseconds> parts;
  std::vector<Exposure> exposures;
  /// What decides when it ends, the longest first. Nothing with perfect
  /// overlap.
  std::vector<CriticalPart> criticalPath;
  /// Where they are asked for: of a rank for each of those that do the same.
  std::vector<Timeline> timelines;
  /// The same of their slack. Nothing with perfect overlap.
  std::vector<Slack> slack;
  /// Of a cluster's links those that carry anything, the busiest first.
  std::vector<LinkUse> links;
  /// Those that are taken, in the cluster's order.
  std::vector<ProtocolUse> protocols;
  /// How busy the cores of the busiest machine are; 0 where ranks share none.
  double cores = 0;
  /// How many ranks were gone through, one of those that do the same; and their
  /// commands, meetings, and changes of the rates of flows.
  int64_t simulatedRanks = 0, events = 0;

  Picoseconds getStep() const { return last.end; }
};

/// What a rank calls, one function after the other.
using CallList = std::vector<std::string>;

struct SimulationOptions {
  /// Collectives and messages take what its links take; without one their
  /// price, on links of each rank's own.
  const Cluster *cluster = nullptr;
  /// Whether one of the ranks that do the same at the same time stands for all.
  /// The answer is the same. With messages, none does.
  bool fold = true;
  /// On a cluster: whether each message of a collective is a flow of its own,
  /// and not all of them together one after a time for their steps. Nobody is
  /// folded then.
  bool everyMessage = false;
  /// Whether times of all commands are kept.
  bool record = false;
  /// Whether slack is found; times are kept for it.
  bool slack = false;
};

/// Simulates calls of all ranks that follow each other, without a barrier
/// between them.
/// Where they end while something is carried that they wait for, too, they are
/// a step of many: the answer is of the second time, which begins with it.
/// Slack of such a step is refused.
/// InvalidArgument names ranks that wait for each other for ever, with the
/// commands they wait for.
optimus_support::StatusOr<Simulation>
simulate(const TimedProgram &program, const CallList &calls,
         const WhatIf &whatIf, const SimulationOptions &options = {});

/// The same where ranks differ in what they call: a list for each of the
/// target's tables.
optimus_support::StatusOr<Simulation>
simulateTables(const TimedProgram &program, const std::vector<CallList> &calls,
               const WhatIf &whatIf, const SimulationOptions &options = {});

/// The mean over the steps of the program's run, each with the times that ranks
/// had in it: they wait for the one that is late in this step. Timelines and
/// slack are those of a step of median length. Without a run, it is one step.
optimus_support::StatusOr<Simulation>
simulateSteps(TimedProgram &program, const std::vector<CallList> &calls,
              const WhatIf &whatIf, const SimulationOptions &options = {});

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_SIMULATOR_H
