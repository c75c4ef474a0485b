//===- SubnormalWatch.h - Steps slowed by tiny numbers ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_SUBNORMALWATCH_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_SUBNORMALWATCH_H

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace optimus_run {

/// Notices when steps become slow while they work on subnormal numbers. A few
/// of those are in many steps, and cost nothing.
class SubnormalWatch {
public:
  /// What to say after a step: once, when three in a row worked on subnormal
  /// numbers and took at least twice as long as the fastest step of the run.
  std::optional<std::string> after(int64_t step, double milliseconds,
                                   bool hadSubnormals);

private:
  double fastest = std::numeric_limits<double>::infinity();
  double least = 0; ///< times as long as that, of the slow ones
  int slow = 0;     ///< in a row
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_SUBNORMALWATCH_H
