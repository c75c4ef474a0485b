//===- Interval.cpp - How wrong a prediction may be -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interval.h"

#include <algorithm>
#include <cmath>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

StatusOr<Interval>
optimus_simulate::findInterval(const Answer &answer, const WhatIf &whatIf,
                               const optimus_prices::Residuals &residuals,
                               const Resimulate &resimulate) {
  // Of a normal distribution.
  constexpr double kDeviations = 1.645;
  Interval interval;
  double squares = 0;
  bool isKnown = false;
  const Picoseconds step = answer.simulation.getStep();
  for (const auto &[kind, isCollective] : listKinds(answer)) {
    const auto residual = isCollective && !answer.cluster.empty()
                              ? std::nullopt
                              : residuals.get(kind);
    if (!residual) {
      interval.without.push_back(kind);
      continue;
    }
    isKnown = true;
    WhatIf longer = whatIf;
    longer.scalings.push_back({kind, std::exp(*residual)});
    OPTRT_ASSIGN_OR_RETURN(const Simulation changed, resimulate(longer));
    squares += std::pow(double(changed.getStep() - step), 2);
  }
  if (!isKnown)
    return invalidArgument(
        "--interval: expected a machine profile with measured points, of which "
        "formulas may be wrong, as `optimus-run bench --gemm --profile FILE` "
        "writes it");
  const auto half = static_cast<Picoseconds>(kDeviations * std::sqrt(squares));
  interval.low = std::max<Picoseconds>(0, step - half);
  interval.high = step + half;
  return interval;
}
