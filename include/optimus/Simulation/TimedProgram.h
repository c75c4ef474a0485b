//===- TimedProgram.h - Commands with their times ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SIMULATION_TIMEDPROGRAM_H
#define OPTIMUS_SIMULATION_TIMEDPROGRAM_H

#include "optimus/Prices/MachinePrices.h"
#include "optimus/Prices/MachineProfile.h"
#include "optimus/Prices/RunTimes.h"
#include "optimus/Simulation/WhatIf.h"

#include "optimus-support/Program.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optimus_simulation {

/// All times: integers add up to the same sum in any order.
using Picoseconds = int64_t;

/// More than a day is no prediction: longer times become this one, and a longer
/// step is refused. Sums of some stay below the largest integer.
inline constexpr Picoseconds kMostTime = 100'000'000'000'000'000;

/// The nearest, at most kMostTime.
Picoseconds toPicoseconds(double seconds);

/// A command of a function as a rank goes through it.
struct TimedCommand {
  enum Kind : uint8_t {
    /// The rank does nothing else meanwhile.
    Compute,
    /// Goes on beside, on the queue of its direction.
    Copy,
    /// Begins once all members have started it.
    Collective,
    Send,
    Receive,
    Wait,
  };
  Kind kind = Compute;
  /// Of collectives and messages: the last of those that start together.
  bool endsGroup = true;
  /// Of Compute its number in `parts`, of collectives and messages that in
  /// `exposures`, of copies the queue.
  uint32_t name = 0;
  Picoseconds seconds = 0;
  /// Of collectives and messages: what processors spend on it, all ranks
  /// together.
  Picoseconds processors = 0;
  /// What its arithmetic takes at the rate of large products.
  Picoseconds atPeak = 0;
  /// By which `seconds` are multiplied already.
  double scale = 1;
  /// What the rank computes before it, and its number in `parts`.
  Picoseconds inserted = 0;
  uint32_t insertedPart = 0;
  /// Of collectives and messages: by what axes, in `axes`.
  uint32_t axes = 0;
  /// So many times as long while the other takes place on the device: a
  /// collective beside computing, computing beside a collective.
  double beside = 1;
  /// Not 0: a wait of a later call is for it.
  uint32_t carried = 0;
  /// Of a wait: the command, or kNone where it is carried.
  uint32_t awaited = 0;
  /// The seconds of its formula, changed, and how many times as long they are
  /// by changes.
  double price = 0, change = 1;
  /// Of collectives: not 0 where it goes by layers, from 1 on, the first layer
  /// first.
  uint32_t priority = 0;
  /// Whether its time is that of a run, and not a formula's.
  bool hasRun = false;
  /// Whether just its shape or size was timed for the machine profile.
  bool hasPoint = false;
  /// Of a collective: whether nobody moves its data before some member waits.
  bool isAwaited = false;
};

/// What is waited for, as reports name it.
struct ExposureName {
  std::string axis;
  std::string kind; ///< "all_reduce", "send"

  bool operator==(const ExposureName &) const = default;
};

/// A function of one table.
struct TimedFunction {
  const optimus_support::program::FunctionT *source = nullptr;
  const optimus_support::program::ProgramTableT *table = nullptr;
  std::vector<TimedCommand> commands;
  /// Copies that must be done before a command of the rank's own, by its number
  /// and theirs.
  std::vector<std::pair<uint32_t, uint32_t>> afterCopies;
};

/// The parts of insertions, of a run's starts of collectives, of its time
/// before waits and after the last command, and of processors in copies to
/// other memories.
inline constexpr const char *kInserted = "inserted";
inline constexpr const char *kStarting = "starting collectives";
inline constexpr const char *kBetween = "between commands";
inline constexpr const char *kCopying = "processors of copies";

/// How many commands a change met, and of what it needs some: "command", "two
/// kernels in a row".
struct Match {
  std::string pattern, origin;
  const char *needed;
  int64_t count = 0;
};

/// When a rank begins a step, and how long it goes on after its last command.
struct RankEdges {
  Picoseconds begin = 0, after = 0;
};

/// The functions of a target, priced for a machine. Names are common to all
/// functions and tables.
class TimedProgram {
public:
  /// The programs and the run outlive this. Commands have their times in a step
  /// of a `run`, the first, if it knows them, by the ratio of formulas that
  /// `whatIf` changes. Of a kind of command others take as many times their
  /// formula as known ones did.
  TimedProgram(const optimus_support::program::ProgramsT &programs,
               const optimus_support::program::TargetT &target,
               const optimus_prices::MachineProfile &machine,
               const WhatIf &whatIf,
               const optimus_prices::RunTimes *run = nullptr);

  const optimus_support::Mesh &getMesh() const { return mesh; }
  const optimus_support::program::TargetT &getTarget() const { return target; }
  /// The number of a rank's table in the target.
  size_t getTable(int64_t rank) const;
  /// The function of a rank's table, which is there.
  const TimedFunction &getFunction(int64_t rank, std::string_view name) const;

  template <typename Visit>
  void forEachFunction(Visit visit) const {
    for (const std::vector<TimedFunction> &table : functions)
      for (const TimedFunction &function : table)
        visit(function);
  }
  /// kAllRanks, unless this rank has times of its own.
  int64_t getVariant(int64_t rank) const {
    return ofRanks.contains(rank) || ofRun.contains(rank) ? rank : kAllRanks;
  }

  /// How many steps of the run count, 1 without a run; takes the times of one.
  size_t countSteps() const { return run ? steps.size() : 1; }
  void takeStep(size_t number);
  RankEdges getEdges(int64_t rank) const {
    return edges.empty() ? RankEdges() : edges[rank];
  }
  uint32_t getPartBetween() const { return partBetween; }

  /// Kinds of computing commands, and of what is waited for.
  const std::vector<std::string> &getParts() const { return parts; }
  const std::vector<ExposureName> &getExposures() const { return exposures; }
  /// The sets of mesh axes of collectives and messages, and the link of each,
  /// numbered from 0.
  const std::vector<std::vector<uint32_t>> &getAxes() const { return axes; }
  uint32_t getLink(uint32_t number) const { return sharesLink ? 0 : number; }
  uint32_t getNumLinks() const {
    return sharesLink ? 1 : static_cast<uint32_t>(axes.size());
  }
  /// Where ranks may want more cores than there are: computing has its time
  /// with cores of its own then.
  const std::optional<optimus_prices::SharedCores> &getSharedCores() const {
    return cores;
  }
  /// Whether ranks take turns on them, of which each is gone through: those of
  /// a run, whose times differ. Ranks that are alike go on slower alike.
  bool takesTurns() const { return run && cores && cores->takesTurns(); }
  /// Where collectives and computing slow each other on a device.
  const std::optional<optimus_prices::Interference> &getInterference() const {
    return interference;
  }
  /// Of each scaling, insertion, fusion, bucket and priority.
  const std::vector<Match> &getMatches() const { return matches; }

private:
  friend class FunctionTimer;
  friend class StepTimes;

  /// Finds the commands in the run, and takes its first step.
  void beginRun();
  /// As its formulas say, of a rank.
  const std::vector<TimedFunction> &getPriced(int64_t rank) const;

  const std::string &getName(const TimedCommand &command) const;
  /// Of a part of the time, which is new or not.
  uint32_t numberPart(const std::string &name);

  optimus_support::Mesh mesh;
  const optimus_support::program::TargetT &target;
  bool sharesLink = false;
  std::optional<optimus_prices::SharedCores> cores;
  std::optional<optimus_prices::Interference> interference;
  std::vector<std::string> parts;
  std::vector<ExposureName> exposures;
  std::vector<std::vector<uint32_t>> axes;
  std::vector<Match> matches;
  /// By table and function; and of ranks whose own commands are changed.
  std::vector<std::vector<TimedFunction>> functions;
  std::map<int64_t, std::vector<TimedFunction>> ofRanks;
  /// By rank, with the times of a step of the run.
  std::map<int64_t, std::vector<TimedFunction>> ofRun;
  std::vector<RankEdges> edges;
  uint32_t partStarting = 0, partBetween = 0;
  const optimus_prices::RunTimes *run = nullptr;
  /// By the run's numbers.
  std::vector<int64_t> steps;
  /// By function and command, their places in the run.
  std::map<const optimus_support::program::FunctionT *,
           std::vector<std::span<const size_t>>>
      places;
  /// Without changes.
  std::shared_ptr<const optimus_prices::MachinePrices> unchanged;
  double turns = 1;
};

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_TIMEDPROGRAM_H
