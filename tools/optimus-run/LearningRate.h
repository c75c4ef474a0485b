//===- LearningRate.h - The learning rate of each step ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_LEARNINGRATE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_LEARNINGRATE_H

#include <cstdint>

namespace optimus_run {

struct LearningRate {
  enum class Schedule { Constant, Cosine };

  double peak = 1e-3;
  Schedule schedule = Schedule::Constant;
  int64_t warmup = 0;

  /// The rate of step `step` (from 1) of a run of `steps`: it rises linearly
  /// over the warm-up's steps, so that step `warmup` has the peak, and then
  /// stays, or falls along half a cosine to a tenth of the peak at the last
  /// step.
  double at(int64_t step, int64_t steps) const;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_LEARNINGRATE_H
