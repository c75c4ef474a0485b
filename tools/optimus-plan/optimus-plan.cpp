//===- optimus-plan.cpp - Plans an arena for live ranges ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 the plan is written, 1 the input or a flag is wrong or the
// arena passes the capacity, 2 the planner made a mistake.
//
//===----------------------------------------------------------------------===//

#include "CommandLine/Parser.h"
#include "CommandLine/Values.h"

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"
#include "optimus-support/PathUse.h"
#include "optimus-support/Process.h"

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using namespace optimus_planning;
using namespace optimus_support;
using optimus_command_line::Number;
using optimus_command_line::oneOf;

namespace {

struct Arguments {
  std::string input;
  std::string output;
  std::string conflict;
  bool report = false;
  Options options;
};

/// Prints the error and returns the exit code.
int fail(const Status &status) {
  std::fflush(stdout);
  std::fprintf(stderr, "optimus-plan: %serror: %s\n",
               status.code() == StatusCode::Internal ? "internal " : "",
               status.message().c_str());
  return status.exitCode();
}

void addOptions(CLI::App &app, Arguments &arguments) {
  app.add_option("FILE.csv", arguments.input,
                 "Live ranges: columns id,lower,upper,size[,alignment][,gaps]"
                 "[,offset]; a buffer is alive from time lower up to, not "
                 "including, upper, but in the gaps, as in '3-5 8-9'; sizes "
                 "are bytes; with an offset it lies there; - is standard "
                 "input")
      ->required();
  app.add_option("--capacity", arguments.options.capacity,
                 "Bytes the arena must fit in; exit 1 when it does not, with a "
                 "proven conflict of buffers where there is one. Without it, "
                 "the smallest arena found")
      ->check(oneOf(Number<int64_t>{"a number of bytes", 0, INT64_MAX}));
  // Without a capacity the smallest arena is asked for.
  arguments.options.goodEnough = 1;
  app.add_option("--good-enough", arguments.options.goodEnough,
                 "Stop at so many times the lower bound")
      ->capture_default_str()
      ->check(oneOf(Number<double>{"a ratio from 1 to 1e6", 1, 1e6}));
  app.add_option("--node-limit", arguments.options.nodeLimit,
                 "Buffers that the exact search may place, and without "
                 "--timeout the local search too; 0: none")
      ->capture_default_str()
      ->check(oneOf(Number<int64_t>{"a whole number >= 0", 0, INT64_MAX}));
  app.add_option("--timeout", arguments.options.timeout,
                 "Seconds of search: the arena shrinks until then, or until it "
                 "is proven to be the smallest (default: none). The plan then "
                 "depends on the speed of the machine")
      ->check(oneOf(Number<double>{"seconds from 0 to 1e6", 0, 1e6}));
  app.add_option(
         "-o", arguments.output,
         "Write id,lower,upper,size,alignment[,gaps],offset there; - is "
         "standard output")
      ->type_name("FILE");
  app.add_option("--conflict-to", arguments.conflict,
                 "Write the buffers that cannot fit together in --capacity "
                 "there, as ranges; - is standard output")
      ->type_name("FILE");
  app.add_flag("--report", arguments.report,
               "Print bound, arena, their ratio and the method");
}

/// An exit code where there is nothing to plan.
std::optional<int> parseCommandLine(int argc, char **argv,
                                    Arguments &arguments) {
  CLI::App app("Gives every buffer of a file of live ranges an offset in one "
               "arena.",
               "optimus-plan");
  optimus_command_line::prepare(app, "optimus-plan " OPTIMUS_VERSION);
  addOptions(app, arguments);
  StatusOr<std::string> asked =
      optimus_command_line::parse(app, {argv + 1, argv + argc});
  if (!asked.ok())
    return fail(asked.status());
  if (asked->empty())
    return std::nullopt;
  std::fputs(asked->c_str(), stdout);
  return 0;
}

StatusOr<std::vector<LiveRange>> readRanges(const std::string &path) {
  constexpr size_t kMostBytes = size_t(256) << 20;
  OPTRT_ASSIGN_OR_RETURN(std::string text, readInput(path, kMostBytes));
  std::istringstream stream(std::move(text));
  std::vector<LiveRange> ranges;
  if (std::optional<std::string> error =
          readLiveRanges(stream, path == "-" ? "<stdin>" : path, ranges))
    return invalidArgument(*error);
  return ranges;
}

void printReport(const std::vector<LiveRange> &ranges, const Plan &plan,
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
constexpr size_t kMostNamed = 16;

/// Names the buffers of a conflict, or says where they are listed.
StatusOr<std::string> listConflict(const std::vector<LiveRange> &members,
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
Status passesCapacity(const std::vector<LiveRange> &ranges, const Plan &plan,
                      const Arguments &arguments) {
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

Status run(const Arguments &arguments) {
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

} // namespace

int main(int argc, char **argv) {
  startProcess();
  StatusOr<int> ran = runOnLargeStack([&] {
    Arguments arguments;
    if (std::optional<int> code = parseCommandLine(argc, argv, arguments))
      return *code;
    Status status = run(arguments);
    return status.ok() ? 0 : fail(status);
  });
  const int code = ran.ok() ? *ran : fail(ran.status());
  Status end = finishStandardOutput();
  return code == 0 && !end.ok() ? fail(end) : code;
}
