//===- Progress.h - What training shows while it runs -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_PROGRESS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <string>

namespace optimus_run {

struct StepReport {
  int64_t step = 0; ///< from 1
  double loss = 0;  ///< mean over the batch's real tokens
  double gradNorm = 0;
  double lr = 0;
  double milliseconds = 0;
  double tokensPerSecond = 0;
};

/// What a terminal shows of a step, in at most `columns`: a bar, numbers, and
/// how long the run will still take, which is there however narrow the terminal
/// is. What says least goes first.
std::string progressLine(const StepReport &report, int64_t firstStep,
                         int64_t lastStep, double secondsLeft,
                         std::size_t columns);

/// On a terminal one line that is rewritten; elsewhere, and on one that cannot
/// (TERM=dumb), a line for the first and the last step and now and then
/// between. Silent when `speaks` is false.
class Progress {
public:
  /// `name` is before each line, of one of several runs that share the output:
  /// these rewrite none.
  Progress(bool speaks, int64_t firstStep, int64_t lastStep,
           const std::string &name = "");
  ~Progress();

  void step(const StepReport &report);
  /// A line of its own.
  void note(const std::string &text);
  /// On standard error.
  void warn(const std::string &text);

private:
  const bool speaks, terminal;
  const std::string prefix;
  const int64_t firstStep, lastStep;
  const std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point lastLine;
  bool lineIsOpen = false;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_PROGRESS_H
