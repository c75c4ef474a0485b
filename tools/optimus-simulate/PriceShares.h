//===- PriceShares.h - Where the prices of a step come from -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_PRICESHARES_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_PRICESHARES_H

#include "Output.h"

namespace optimus_simulate {

/// Parts of the time of the slowest rank's commands, waits left out: what a run
/// took; what was timed by itself, a product of these extents or a collective
/// of a size between two timed ones; what formulas say. Collectives on the
/// links of a cluster are simulated, and none of these. They add up to 1, or
/// all are 0.
struct PriceShares {
  explicit PriceShares(const Answer &answer);

  double run = 0, points = 0, formulas = 0;
};

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_PRICESHARES_H
