//===- PriceShares.cpp - Where the prices of a step come from ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PriceShares.h"

using namespace optimus_simulate;
using namespace optimus_simulation;

PriceShares::PriceShares(const Answer &answer) {
  const int64_t rank = answer.simulation.slowest;
  for (const std::string &call : answer.getCalls(rank))
    for (const TimedCommand &command :
         answer.timed->getFunction(rank, call).commands) {
      const bool isLocal = command.kind == TimedCommand::Compute ||
                           command.kind == TimedCommand::Copy;
      if (command.kind == TimedCommand::Wait ||
          (!isLocal && !answer.cluster.empty()))
        continue;
      double &share = command.hasRun     ? run
                      : command.hasPoint ? points
                                         : formulas;
      share += double(command.seconds);
    }
  const double all = run + points + formulas;
  for (double *share : {&run, &points, &formulas})
    *share = all > 0 ? *share / all : 0;
}
