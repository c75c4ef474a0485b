//===- RunProfile.h - What a training run measured --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reader of what `optimus-run train --profile` wrote, for the compiler and
// the simulator; docs/profile.md describes the file. Times are seconds, sizes
// bytes.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_RUNPROFILE_H
#define OPTIMUS_PRICES_RUNPROFILE_H

#include "optimus/Prices/RunSteps.h"

#include "optimus-support/Status.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace optimus_prices {

/// A command of a function, waits left out, and what it took.
struct MeasuredCommand {
  std::string function;
  /// "gemm", "launch", "all_reduce", and the kernel of a launch.
  std::string kind, kernel;
  /// "h.0.mlp.up" or "h.0.mlp.up backward"; empty where there is none.
  std::string path;
  /// Its place among the function's commands, waits counted.
  int64_t number = 0;
  /// Bytes read and written, those of an update counted twice; of these, the
  /// bytes written, unknown for collectives.
  int64_t bytes = 0, written = 0;
  /// Those of its largest operand, which of a collective is the whole tensor.
  int64_t largest = 0;
  int64_t flops = 0;
  /// Of a collective: among so many ranks, whose numbers lie `stride` apart.
  int64_t ranks = 1, stride = 1;
  /// Their mesh axes, "row+col".
  std::string axes;
  /// The median over steps. Of a collective, from start to end on the rank that
  /// came last, since the others wait for it; of the time in which several were
  /// under way on an axis, each has an equal share.
  double seconds = 0;
  bool isCollective = false;
  /// Whether it copies beside what its rank computes.
  bool isBeside = false;
};

/// How long a value lies in memory between two commands that touch it: the
/// longest such access-time interval (ATI) of a call, the median over calls.
struct MeasuredIdle {
  int64_t bytes = 0;
  double seconds = 0;
};

struct RunProfile {
  /// As the run had them: "row:2,col:2", "summa", "cpu".
  std::string mesh, strategy, device;
  /// What moved its data: "local", "tcp", "mpi".
  std::string backend;
  /// Of the model's definition, as the manifest has it.
  std::string modelHash;
  /// Of the run, and the names of the hosts that its processes had.
  int64_t numRanks = 1;
  /// Each of the run's processes writes a file; the place of this one, from 0.
  int64_t numProcesses = 1, process = 0;
  std::set<std::string> hosts;
  /// What a rank holds, by name: parameters and inputs.
  std::map<std::string, int64_t> parameters, inputs;
  std::vector<MeasuredCommand> commands;
  /// By id of the value that a buffer of the training step holds first.
  std::map<std::string, MeasuredIdle> idle;
  std::map<int64_t, RunFunction> functions;
  /// The steps that count, by number.
  std::map<int64_t, RunStep> steps;
  /// Of these the middle half by length, and what one of them takes in the
  /// mean.
  std::vector<int64_t> middle;
  double stepSeconds = 0;
  int64_t numSteps = 0;
  /// The system's clock when the file's clock began, in nanoseconds.
  int64_t originUnix = 0;
  /// How often a rank called a function in a step.
  int64_t callsPerStep = 0;

  /// Whether each of several ranks had a host of its own.
  bool hasHostForEachRank() const {
    return numRanks > 1 && int64_t(hosts.size()) == numRanks;
  }
  /// Whether all of its ranks had the clock of one host.
  bool hasOneClock() const { return hosts.size() <= 1; }

  /// Operations a second of all products together; 0 where none was measured.
  double getFlopsPerSecond() const;

  /// Reads the last steps of a profile, without the first of the run if it has
  /// others. InvalidArgument if the file is no profile of this version or has
  /// no step, DataLoss if it is damaged or was not closed.
  static optimus_support::StatusOr<RunProfile> read(const std::string &path);

  /// Takes in what another process of the run measured: of collectives the
  /// shortest time, of computation the longest. InvalidArgument where that
  /// executed other commands.
  optimus_support::Status add(const RunProfile &other);

private:
  void addSteps(const RunProfile &other);
  /// Sets `middle` and `stepSeconds`.
  void chooseMiddle();
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_RUNPROFILE_H
