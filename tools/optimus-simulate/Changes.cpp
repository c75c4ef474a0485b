//===- Changes.cpp - What-ifs of flags and files ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Changes.h"

#include "optimus-support/InputFile.h"

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

static Status addFlags(const std::string &name,
                       const std::vector<std::string> &values, int64_t ranks,
                       WhatIf &whatIf) {
  for (const std::string &value : values)
    if (Status added = addChange(name, value, ranks, "--" + name, whatIf);
        !added.ok())
      return added.withContext("--" + name);
  return okStatus();
}

static Status addLines(const std::string &path, int64_t ranks, WhatIf &whatIf) {
  constexpr size_t kMostBytes = 1 << 20;
  auto text = optimus_support::readInput(path, kMostBytes);
  if (!text.ok())
    return text.status().withContext("--what-if");
  return addChanges(*text, path, ranks, whatIf);
}

StatusOr<WhatIf> optimus_simulate::readChanges(const Arguments &arguments,
                                               int64_t ranks) {
  WhatIf whatIf;
  OPTRT_RETURN_IF_ERROR(
      addFlags("straggler", arguments.stragglers, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(addFlags("scale", arguments.scalings, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(addFlags("remove", arguments.removals, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(
      addFlags("insert", arguments.insertions, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(addFlags("fuse", arguments.fusions, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(addFlags("bucket", arguments.buckets, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(
      addFlags("priority", arguments.priorities, ranks, whatIf));
  if (!arguments.network.empty())
    OPTRT_RETURN_IF_ERROR(
        addFlags("network", {arguments.network}, ranks, whatIf));
  if (!arguments.device.empty())
    OPTRT_RETURN_IF_ERROR(
        addFlags("device", {arguments.device}, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(
      addFlags("overlap", {arguments.overlap}, ranks, whatIf));
  if (!arguments.whatIf.empty())
    OPTRT_RETURN_IF_ERROR(addLines(arguments.whatIf, ranks, whatIf));
  return whatIf;
}
