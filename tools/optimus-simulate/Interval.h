//===- Interval.h - How wrong a prediction may be ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_INTERVAL_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_INTERVAL_H

#include "Output.h"
#include "Sensitivity.h"

#include "optimus/Prices/Residuals.h"

namespace optimus_simulate {

/// The interval of 90 % of a step, by the residuals of formulas: each kind of
/// command and collective is simulated longer by that of its shapes on the
/// slowest rank. The squares of these differences add up, with one for all that
/// no formula has. Commands of two kinds err apart. With a cluster nothing is
/// known of collectives. InvalidArgument where there is no residual at all.
optimus_support::StatusOr<Interval>
findInterval(const Answer &answer, const optimus_simulation::WhatIf &whatIf,
             const optimus_prices::Residuals &residuals,
             const Resimulate &resimulate);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_INTERVAL_H
