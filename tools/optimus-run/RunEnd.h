//===- RunEnd.h - How a training run ended ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_RUNEND_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_RUNEND_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace optimus_run {

/// How a run ended, as the last record of --log-json says it.
enum class RunEnd {
  Done,     ///< all steps were taken
  Stopped,  ///< by a signal or --until: it can go on
  Patience, ///< evaluations found no better loss
  Diverged, ///< a loss, a norm or a state was not finite
  Data,     ///< a batch could not be read
  Memory,   ///< it ran out
  Fault,    ///< any other failure
};

/// "done", "stopped", …
std::string_view toString(RunEnd end);

/// How a run ended with this status, where nothing more is known of it.
RunEnd endOf(const optrt::Status &status);

/// The record: a JSON object with "ended", the last "step" that was taken and,
/// of a failure, its "message".
std::string describeEnd(RunEnd end, int64_t step, const optrt::Status &status);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_RUNEND_H
