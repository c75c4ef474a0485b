//===- RunSteps.h - When ranks of a run did what ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The records of a profile, rank by rank and step by step, for who goes through
// the steps again. Times are nanoseconds of one clock.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_RUNSTEPS_H
#define OPTIMUS_PRICES_RUNSTEPS_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace optimus_prices {

struct RunSpan {
  int64_t begin = 0, end = 0;
};

/// Of a command, by its number among those of its function.
struct CommandSpan {
  int64_t command = 0;
  RunSpan span;
};

/// A function that a rank called.
struct RunCall {
  int64_t rank = 0;
  /// Its number in RunProfile::functions.
  int64_t function = 0;
  RunSpan span;
  /// By number, waits too.
  std::vector<CommandSpan> commands = {};
  /// Of collectives, from the end of their start to their own.
  std::vector<CommandSpan> transfers = {};
};

/// The calls of all ranks; those of each in their order.
struct RunStep {
  std::vector<RunCall> calls;
  /// From the first call's begin to the last one's end.
  double seconds = 0;
};

/// What a rank's calls of a function go through.
struct RunFunction {
  std::string name;
  /// By number: the place of a command in RunProfile::commands, waits left out;
  /// and of a wait, the start of its collective in the same call.
  std::map<int64_t, size_t> places;
  std::map<int64_t, int64_t> waits;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_RUNSTEPS_H
