//===- DescribeCarried.cpp - What goes on behind a call, as text *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/DescribeCarried.h"

#include "optimus-support/Status.h"

#include <algorithm>
#include <cmath>

using optimus_support::concat;

namespace optimus_prices {

std::string
describeCarried(const CarriedCollectives &carried,
                const std::function<std::string(double)> &formatMs) {
  auto format = [&](double seconds) { return formatMs(seconds * 1e3); };
  std::string text;
  if (carried.count > 0)
    text = concat(carried.count,
                  carried.count == 1 ? " collective of " : " collectives of ",
                  format(carried.seconds), ", until ",
                  format(carried.afterSeconds), " behind the end; ");
  text += format(carried.exposedSeconds) + " waiting for earlier ones";
  if (carried.seconds > 0) {
    const double hidden =
        std::max(0.0, 1 - carried.exposedSeconds / carried.seconds);
    text += concat(": ", std::round(1000 * hidden) / 10, " % hidden");
  }
  return text;
}

} // namespace optimus_prices
