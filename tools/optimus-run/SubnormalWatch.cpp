//===- SubnormalWatch.cpp - Steps slowed by tiny numbers ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SubnormalWatch.h"

#include "Format.h"

#include <algorithm>

namespace optimus_run {

constexpr int kSteps = 3;
constexpr double kSlower = 2;

std::optional<std::string>
SubnormalWatch::after(int64_t step, double milliseconds, bool hadSubnormals) {
  fastest = std::min(fastest, milliseconds);
  if (slow == kSteps)
    return std::nullopt;
  if (!hadSubnormals || milliseconds < kSlower * fastest) {
    slow = 0;
    return std::nullopt;
  }
  const double times = milliseconds / fastest;
  least = slow == 0 ? times : std::min(least, times);
  if (++slow != kSteps)
    return std::nullopt;
  return format("steps %lld to %lld worked on subnormal numbers, and took at "
                "least %.1f times as long as the fastest one; "
                "--flush-subnormals takes such numbers for zero",
                static_cast<long long>(step - kSteps + 1),
                static_cast<long long>(step), least);
}

} // namespace optimus_run
