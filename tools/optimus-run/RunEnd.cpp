//===- RunEnd.cpp - How a training run ended ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunEnd.h"

#include "JsonLine.h"

#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {

std::string_view toString(RunEnd end) {
  switch (end) {
  case RunEnd::Done:
    return "done";
  case RunEnd::Stopped:
    return "stopped";
  case RunEnd::Patience:
    return "patience";
  case RunEnd::Diverged:
    return "diverged";
  case RunEnd::Data:
    return "data";
  case RunEnd::Memory:
    return "memory";
  case RunEnd::Fault:
    break;
  }
  return "fault";
}

RunEnd endOf(const Status &status) {
  if (status.ok())
    return RunEnd::Done;
  // Devices, libraries and the C++ runtime have one code for all that a machine
  // lacks; these words are in each message about memory.
  if (status.code() != StatusCode::Internal)
    for (const char *words : {"cannot allocate", "out of memory"})
      if (status.message().find(words) != std::string::npos)
        return RunEnd::Memory;
  return RunEnd::Fault;
}

std::string describeEnd(RunEnd end, int64_t step, const Status &status) {
  nlohmann::ordered_json record;
  record["ended"] = toString(end);
  record["step"] = step;
  if (!status.ok())
    record["message"] = status.message();
  // A path in a message need not be UTF-8.
  return toLine(record);
}

} // namespace optimus_run
