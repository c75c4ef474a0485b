//===- Interval.cpp - How wrong a prediction may be -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interval.h"

#include "optimus/Prices/ProgramWork.h"

#include <algorithm>
#include <cmath>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

/// The error of a whole step beside its formulas': the machine's speed since it
/// was measured, and all that no formula has. It is the root mean square error
/// of steps in docs/cost-model.md, of programs without a part in the fit.
static constexpr double kRestOfStep = 0.05;

/// By kind, as listKinds() names them, what the slowest rank takes for the
/// commands of each shape.
static std::map<std::string, std::vector<double>>
listShapes(const Answer &answer) {
  const TimedProgram &timed = *answer.timed;
  std::map<std::string, std::map<std::vector<int64_t>, double>> kinds;
  const int64_t rank = answer.simulation.slowest;
  for (const std::string &call : answer.getCalls(rank)) {
    const TimedFunction &function = timed.getFunction(rank, call);
    for (size_t i = 0; i != function.commands.size(); ++i) {
      const TimedCommand &command = function.commands[i];
      if (command.kind == TimedCommand::Wait ||
          command.kind == TimedCommand::Copy || command.hasRun)
        continue;
      const std::string &kind = command.kind == TimedCommand::Compute
                                    ? timed.getParts()[command.name]
                                    : timed.getExposures()[command.name].kind;
      kinds[kind][optimus_prices::getShape(timed.getTarget(),
                                           *function.source->commands[i])] +=
          double(command.seconds);
    }
  }
  std::map<std::string, std::vector<double>> result;
  for (const auto &[kind, shapes] : kinds)
    for (const auto &[shape, seconds] : shapes)
      result[kind].push_back(seconds);
  return result;
}

StatusOr<Interval>
optimus_simulate::findInterval(const Answer &answer, const WhatIf &whatIf,
                               const optimus_prices::Residuals &residuals,
                               const Resimulate &resimulate) {
  // Of a normal distribution.
  constexpr double kDeviations = 1.645;
  Interval interval;
  bool isKnown = false;
  const Picoseconds step = answer.simulation.getStep();
  double squares = std::pow(kRestOfStep * double(step), 2);
  const auto shapes = listShapes(answer);
  for (const auto &[kind, isCollective] : listKinds(answer)) {
    const auto residual = isCollective && !answer.cluster.empty()
                              ? std::nullopt
                              : residuals.get(kind);
    if (!residual) {
      interval.without.push_back(kind);
      continue;
    }
    isKnown = true;
    const auto found = shapes.find(kind);
    if (found == shapes.end())
      continue;
    WhatIf longer = whatIf;
    longer.scalings.push_back({kind, std::exp(residual->ofSum(found->second))});
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
