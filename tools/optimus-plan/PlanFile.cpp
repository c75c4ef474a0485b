//===- PlanFile.cpp - From live ranges to a plan in a file ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanFile.h"

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"
#include "optimus-support/PathUse.h"

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using namespace optimus_plan;
using namespace optimus_planning;
using namespace optimus_support;

static StatusOr<std::vector<LiveRange>> readRanges(const std::string &path) {
  constexpr size_t kMostBytes = size_t(256) << 20;
  OPTRT_ASSIGN_OR_RETURN(std::string text, readInput(path, kMostBytes));
  std::istringstream stream(std::move(text));
  std::vector<LiveRange> ranges;
  if (std::optional<std::string> error =
          readLiveRanges(stream, path == "-" ? "<stdin>" : path, ranges))
    return invalidArgument(*error);
  return ranges;
}

static void printReport(const std::vector<LiveRange> &ranges, const Plan &plan,
                        std::FILE *to) {
  double ratio = plan.lowerBound > 0 ? static_cast<double>(plan.arenaBytes) /
                                           static_cast<double>(plan.lowerBound)
                                     : 1.0;
  std::fprintf(to,
               "buffers      %zu\n"
               "lower bound  %lld bytes\n"
               "arena        %lld bytes\n"
               "ratio        %.4f%s\n"
               "order        %s\n"
               "search nodes %lld\n"
               "moves        %lld\n",
               ranges.size(), static_cast<long long>(plan.lowerBound),
               static_cast<long long>(plan.arenaBytes), ratio,
               plan.optimal ? " (optimal)" : "", plan.order.c_str(),
               static_cast<long long>(plan.searchNodes),
               static_cast<long long>(plan.moves));
}

/// Up to this many buffers of a conflict are named in the message.
static constexpr size_t kMostNamed = 16;

/// Names the buffers of a conflict, or says where they are listed.
static StatusOr<std::string> listConflict(const std::vector<LiveRange> &members,
                                          const std::string &path) {
  if (!path.empty()) {
    std::ostringstream text;
    writeLiveRanges(text, members);
    OPTRT_RETURN_IF_ERROR(OutputFile::write(path, std::move(text).str()));
    return isStandardOutput(path) ? "" : concat("; they are in ", path);
  }
  if (members.size() > kMostNamed)
    return std::string("; --conflict-to FILE lists them");
  std::string ids;
  for (const LiveRange &range : members)
    ids += concat(ids.empty() ? ": " : ", ", range.id);
  return ids;
}

/// Says why the arena is larger than the capacity, as far as that is known.
static Status passesCapacity(const std::vector<LiveRange> &ranges,
                             const Plan &plan, const Arguments &arguments) {
  const int64_t capacity = *arguments.options.capacity;
  std::string message =
      concat("the arena of ", plan.arenaBytes, " bytes passes the capacity of ",
             capacity, " bytes");
  std::optional<Conflict> conflict =
      findConflict(ranges, capacity, arguments.options);
  if (!conflict)
    return invalidArgument(message +
                           "; that no plan meets it is not proven: a higher "
                           "--node-limit may find one");
  std::vector<LiveRange> members;
  for (size_t member : conflict->members)
    members.push_back(ranges[member]);
  OPTRT_ASSIGN_OR_RETURN(std::string list,
                         listConflict(members, arguments.conflict));
  return invalidArgument(concat(
      message, ", as every other does: these ", members.size(),
      " buffers do not fit in it together, ",
      conflict->irreducible
          ? "though they do without any one of them"
          : "perhaps not all of them are needed for the conflict",
      "; at their peak ", lowerBound(members), " bytes are alive", list));
}

Status optimus_plan::planFile(const Arguments &arguments) {
  if (!arguments.conflict.empty() && !arguments.options.capacity)
    return invalidArgument("--conflict-to needs --capacity: without it no "
                           "buffers are in conflict");
  std::vector<PathUse> inputs{{"the input", arguments.input}};
  std::vector<PathUse> outputs{{"-o", arguments.output},
                               {"--conflict-to", arguments.conflict}};
  for (const PathUse &output : outputs)
    if (!output.path.empty())
      OPTRT_RETURN_IF_ERROR(checkOutput(output.path));
  OPTRT_RETURN_IF_ERROR(checkOutputsApart(inputs, outputs));
  OPTRT_ASSIGN_OR_RETURN(std::vector<LiveRange> ranges,
                         readRanges(arguments.input));
  Plan result = plan(ranges, arguments.options);
  if (std::optional<std::string> mistake = validate(ranges, result))
    return internal("the plan is invalid: " + *mistake +
                    "; please report this with the input file");
  bool printsPlan = isStandardOutput(arguments.output);
  if (!arguments.output.empty()) {
    std::ostringstream text;
    writePlan(text, ranges, result);
    OPTRT_RETURN_IF_ERROR(
        OutputFile::write(arguments.output, std::move(text).str()));
  }
  if (arguments.report)
    printReport(ranges, result, printsPlan ? stderr : stdout);
  if (arguments.options.capacity &&
      result.arenaBytes > *arguments.options.capacity)
    return passesCapacity(ranges, result, arguments);
  return okStatus();
}
