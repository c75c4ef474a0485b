//===- Failures.h - What failures leave of the time -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SIMULATION_FAILURES_H
#define OPTIMUS_SIMULATION_FAILURES_H

#include "optimus-support/Status.h"

#include <string>

namespace optimus_simulation {

/// Failures of the whole job, independent of each other. Seconds.
struct Failures {
  double meanBetween = 0;
  /// Training stands still while a checkpoint is written, and between a failure
  /// and going on from the last checkpoint.
  double checkpoint = 0, restart = 0;

  /// "a failure every 11160 s, …"
  std::string describe() const;
};

/// "mtbf=3.1h,checkpoint=30s,restart=5min", all three.
optimus_support::StatusOr<Failures> parseFailures(const std::string &text);

/// What failures leave at the best interval between checkpoints.
struct Goodput {
  /// Seconds of training from a checkpoint to the next.
  double interval = 0;
  /// The part of the time that training keeps.
  double share = 0;
};

/// The part of the time that training with checkpoints every `interval` seconds
/// keeps. With M the mean time between failures, an interval t and a checkpoint
/// C take M e^(R/M) (e^((t+C)/M) - 1) on average (Daly, "A higher order
/// estimate of the optimum checkpoint interval for restart dumps", equation 13;
/// failures while restarting count).
double getGoodputShare(const Failures &failures, double interval);

/// The interval with the greatest share: t with 1 - t/M = e^-((t+C)/M). For C
/// far below M it is about sqrt(2 C M).
Goodput getBestGoodput(const Failures &failures);

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_FAILURES_H
