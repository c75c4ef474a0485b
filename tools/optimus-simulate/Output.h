//===- Output.h - The answer, for people and programs -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_OUTPUT_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_OUTPUT_H

#include "Memory.h"

#include "optimus/Simulation/Failures.h"
#include "optimus/Simulation/Simulator.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace optimus_simulate {

/// By how much the step is shorter with 1 % more of something.
struct Gain {
  std::string what;
  optimus_simulation::Picoseconds seconds = 0;
};

/// Of a step.
struct Interval {
  optimus_simulation::Picoseconds low = 0, high = 0;
  /// Kinds of which nothing is known: they count as exact.
  std::vector<std::string> without;
};

/// What an answer has from the profile of a run.
struct RunShare {
  std::string path;
  /// Of the slowest rank, waits left out: those that the run knows.
  int64_t commands = 0, measured = 0;
  optimus_simulation::Picoseconds seconds = 0, measuredSeconds = 0;
  /// A step of the run; where that was of this very program, as it is simulated
  /// without changes, too.
  optimus_simulation::Picoseconds step = 0;
  std::optional<optimus_simulation::Picoseconds> unchanged;

  /// How much longer the unchanged program is simulated than it ran.
  double getError() const { return double(*unchanged) / double(step) - 1; }
};

/// Of all ranks the one with the most, where that is more than a GPU has.
struct Misfit {
  int64_t rank = 0, usable = 0;
  RankMemory memory;
};

struct Answer {
  /// What the programs below belong to.
  std::unique_ptr<optrt::ModelLibrary> opened;
  std::string library, target;
  /// The profile's name; empty for the built-in one.
  std::string machine;
  /// Empty where ranks have links of their own.
  std::string cluster;
  /// Of the function or the sequence, and its calls by each table's ranks.
  std::string name;
  std::vector<optimus_simulation::CallList> calls;
  /// That all calls read together.
  int64_t tokens = 0;
  /// What differs from the program as it is.
  std::vector<std::string> whatIf;
  /// Where they are asked for.
  std::vector<Gain> gains;
  std::optional<Interval> interval;
  std::optional<RunShare> run;
  std::optional<optimus_simulation::Failures> failures;
  std::unique_ptr<optimus_simulation::TimedProgram> timed;
  optimus_simulation::Simulation simulation;
  /// Of the slowest rank.
  std::optional<RankMemory> memory;
  std::optional<Misfit> misfit;

  const optimus_simulation::CallList &getCalls(int64_t rank) const {
    return calls[timed->getTable(rank)];
  }
  double getTokensPerSecond() const;
  /// Of the slowest rank: its arithmetic at the rate of large products, as a
  /// part of the step.
  double getUtilisation() const;
};

inline double toMs(optimus_simulation::Picoseconds seconds) {
  return double(seconds) * 1e-9;
}

void print(const Answer &answer, std::ostream &out);
/// The question: calls, machine, cluster and changes.
void printQuestion(const Answer &answer, std::ostream &out);

/// Times are milliseconds.
nlohmann::ordered_json describe(const Answer &answer);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_OUTPUT_H
