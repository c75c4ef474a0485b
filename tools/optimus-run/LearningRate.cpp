//===- LearningRate.cpp - The learning rate of each step ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LearningRate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace optimus_run {

double LearningRate::at(int64_t step, int64_t steps) const {
  if (step < warmup)
    return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (schedule == Schedule::Constant || steps <= warmup)
    return peak;
  double progress = std::min(1.0, static_cast<double>(step - warmup) /
                                      static_cast<double>(steps - warmup));
  double floor = 0.1 * peak;
  return floor +
         0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - floor);
}

} // namespace optimus_run
