//===- Changes.cpp - What-ifs of flags and files ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Changes.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/NearestName.h"

#include <sstream>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

/// One change by the name of its flag.
static Status addChange(const std::string &name, const std::string &value,
                        int64_t ranks, WhatIf &whatIf) {
  if (name == "straggler") {
    OPTRT_ASSIGN_OR_RETURN(Straggler straggler, parseStraggler(value, ranks));
    whatIf.stragglers.push_back(straggler);
  } else if (name == "scale") {
    OPTRT_ASSIGN_OR_RETURN(Scaling scaling, parseScaling(value));
    whatIf.scalings.push_back(std::move(scaling));
  } else if (name == "remove") {
    if (value.empty())
      return invalidArgument("expected GLOB, found ''");
    whatIf.scalings.push_back({value, 0});
  } else if (name == "network") {
    OPTRT_ASSIGN_OR_RETURN(NetworkChange network, parseNetworkChange(value));
    whatIf.network.bandwidth *= network.bandwidth;
    whatIf.network.latency *= network.latency;
  } else if (name == "overlap") {
    if (value != "scheduled" && value != "none" && value != "perfect")
      return invalidArgument(
          concat("expected scheduled, none or perfect, found '", value, "'"));
    whatIf.overlap = value == "none"      ? Overlap::None
                     : value == "perfect" ? Overlap::Perfect
                                          : Overlap::Scheduled;
  } else {
    const std::vector<std::string> names{"straggler", "scale", "remove",
                                         "network", "overlap"};
    return invalidArgument(
        concat("expected straggler, scale, remove, network or overlap, found '",
               name, "'", optimus_support::didYouMean(name, names)));
  }
  return okStatus();
}

static Status addFlags(const char *name, const std::vector<std::string> &values,
                       int64_t ranks, WhatIf &whatIf) {
  for (const std::string &value : values)
    if (Status added = addChange(name, value, ranks, whatIf); !added.ok())
      return added.withContext(concat("--", name));
  return okStatus();
}

static std::string trim(const std::string &text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

/// A change on each line; what follows # is a comment.
static Status addLines(const std::string &path, int64_t ranks, WhatIf &whatIf) {
  constexpr size_t kMostBytes = 1 << 20;
  auto text = optimus_support::readInput(path, kMostBytes);
  if (!text.ok())
    return text.status().withContext("--what-if");
  std::istringstream lines(*text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty())
      continue;
    const size_t end = line.find_first_of(" \t");
    const std::string name = line.substr(0, end);
    const std::string value =
        end == std::string::npos ? "" : trim(line.substr(end));
    if (Status added = addChange(name, value, ranks, whatIf); !added.ok())
      return added.withContext(concat(path, ":", number));
  }
  return okStatus();
}

StatusOr<WhatIf> optimus_simulate::readChanges(const Arguments &arguments,
                                               int64_t ranks) {
  WhatIf whatIf;
  OPTRT_RETURN_IF_ERROR(
      addFlags("straggler", arguments.stragglers, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(addFlags("scale", arguments.scalings, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(addFlags("remove", arguments.removals, ranks, whatIf));
  if (!arguments.network.empty())
    OPTRT_RETURN_IF_ERROR(
        addFlags("network", {arguments.network}, ranks, whatIf));
  OPTRT_RETURN_IF_ERROR(
      addFlags("overlap", {arguments.overlap}, ranks, whatIf));
  if (!arguments.whatIf.empty())
    OPTRT_RETURN_IF_ERROR(addLines(arguments.whatIf, ranks, whatIf));
  return whatIf;
}
