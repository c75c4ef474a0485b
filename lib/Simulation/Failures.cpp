//===- Failures.cpp - What failures leave of the time -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/Failures.h"

#include "NamedValues.h"

#include <array>
#include <charconv>
#include <cmath>

using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

namespace optimus_simulation {

static StatusOr<double> parseFailureTime(std::string_view text) {
  return parseQuantity(
      text, {.units = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}},
             .least = 1e-3,
             .most = 3.2e10,
             .expected = "a time from 1e-3s to 1000 years in s, min, h or d, "
                         "as 3.1h"});
}

StatusOr<Failures> parseFailures(const std::string &text) {
  OPTRT_ASSIGN_OR_RETURN(const auto values,
                         parseNamedValues(text,
                                          {"mtbf", "checkpoint", "restart"},
                                          "TIME", parseFailureTime));
  for (const std::optional<double> &value : values)
    if (!value)
      return invalidArgument(concat("expected mtbf=TIME, checkpoint=TIME and "
                                    "restart=TIME, found '",
                                    text, "'"));
  return Failures{*values[0], *values[1], *values[2]};
}

std::string Failures::describe() const {
  return concat("the job fails every ", meanBetween,
                " s on average, a checkpoint takes ", checkpoint,
                " s, a restart ", restart, " s");
}

double getGoodputShare(const Failures &failures, double interval) {
  const double mean = failures.meanBetween;
  return interval / (mean * std::exp(failures.restart / mean) *
                     std::expm1((interval + failures.checkpoint) / mean));
}

Goodput getBestGoodput(const Failures &failures) {
  const double mean = failures.meanBetween;
  // The share's derivative falls through 0 once, between 0 and M.
  double below = 0, above = mean;
  for (int i = 0; i != 200; ++i) {
    const double interval = (below + above) / 2;
    const double left =
        -std::expm1(-(interval + failures.checkpoint) / mean) - interval / mean;
    (left > 0 ? below : above) = interval;
  }
  return {below, getGoodputShare(failures, below)};
}

} // namespace optimus_simulation
