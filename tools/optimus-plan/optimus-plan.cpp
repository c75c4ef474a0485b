//===- optimus-plan.cpp - Plans an arena for live ranges ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 the plan is written, 1 the input or a flag is wrong or the
// arena passes the budget, 2 the planner made a mistake.
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using namespace optimus_planning;

namespace {

constexpr const char *kUsage =
    R"(usage: optimus-plan FILE.csv [options]

Gives every buffer of FILE.csv an offset in one arena. FILE.csv (- for standard
input) has the columns id,lower,upper,size[,alignment]: the buffer is alive from
time lower up to, not including, upper; sizes are bytes.

  --budget N      bytes the arena must fit in; exit 1 when it does not
  --good-enough R stop at R times the lower bound (default 1.01)
  --node-limit N  how long the exact search goes on (default 1000000; 0: none)
  --time-limit S  seconds for the exact search (default: none). The plan then
                  depends on the speed of the machine.
  -o FILE         write id,lower,upper,size,alignment,offset (- for stdout)
  --report        print bound, arena, their ratio and the method
  --help          print this
)";

struct Arguments {
  std::string input;
  std::string output;
  bool report = false;
  bool help = false;
  Options options;
};

/// Prints the error and returns the exit code for wrong input.
int fail(const std::string &message) {
  std::fprintf(stderr, "optimus-plan: error: %s\n", message.c_str());
  return 1;
}

/// Reads a whole number or decimal fraction; returns whether `text` is one.
template <typename T>
bool parseNumber(const std::string &text, T &value) {
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

/// Returns the error, if any.
std::optional<std::string> parseArguments(int argc, char **argv,
                                          Arguments &arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--help") {
      arguments.help = true;
      return std::nullopt;
    }
    if (flag == "--report") {
      arguments.report = true;
      continue;
    }
    if (flag == "-" || !flag.starts_with("-")) {
      if (!arguments.input.empty())
        return "two input files: '" + arguments.input + "' and '" + flag + "'";
      arguments.input = flag;
      continue;
    }

    // The rest take a value, as `--flag value` or `--flag=value`.
    std::string value;
    size_t equals = flag.find('=');
    bool inOne = flag.starts_with("--") && equals != std::string::npos;
    if (inOne) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    const std::vector<std::string> known = {
        "--budget", "--good-enough", "--node-limit", "--time-limit", "-o"};
    if (std::find(known.begin(), known.end(), flag) == known.end())
      return "unknown option '" + flag + "'; see --help";
    if (!inOne) {
      if (i + 1 == argc)
        return flag + " needs a value";
      value = argv[++i];
    }

    if (flag == "-o") {
      arguments.output = value;
    } else if (flag == "--budget") {
      int64_t bytes = 0;
      if (!parseNumber(value, bytes) || bytes < 0)
        return "--budget: expected a number of bytes, found '" + value + "'";
      arguments.options.budget = bytes;
    } else if (flag == "--node-limit") {
      if (!parseNumber(value, arguments.options.nodeLimit) ||
          arguments.options.nodeLimit < 0)
        return "--node-limit: expected a whole number >= 0, found '" + value +
               "'";
    } else if (flag == "--good-enough") {
      double &ratio = arguments.options.goodEnough;
      if (!parseNumber(value, ratio) || !(ratio >= 1 && ratio <= 1e6))
        return "--good-enough: expected a ratio from 1 to 1e6, found '" +
               value + "'";
    } else {
      double seconds = 0;
      if (!parseNumber(value, seconds) || !(seconds >= 0 && seconds <= 1e6))
        return "--time-limit: expected seconds from 0 to 1e6, found '" + value +
               "'";
      arguments.options.timeLimit = seconds;
    }
  }
  if (arguments.input.empty())
    return "no input file; see --help";
  return std::nullopt;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  if (std::optional<std::string> error = parseArguments(argc, argv, arguments))
    return fail(*error);
  if (arguments.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }

  std::vector<LiveRange> ranges;
  std::optional<std::string> error;
  if (arguments.input == "-") {
    error = readLiveRanges(std::cin, "<stdin>", ranges);
  } else {
    std::ifstream file(arguments.input);
    if (!file)
      return fail("cannot open '" + arguments.input + "' for reading");
    error = readLiveRanges(file, arguments.input, ranges);
  }
  if (error)
    return fail(*error);

  Plan result = plan(ranges, arguments.options);
  if (std::optional<std::string> mistake = validate(ranges, result)) {
    std::fprintf(
        stderr,
        "optimus-plan: internal error: the plan is invalid: %s; please "
        "report this with the input file\n",
        mistake->c_str());
    return 2;
  }

  if (arguments.output == "-") {
    writePlan(std::cout, ranges, result);
    std::cout.flush();
    if (!std::cout)
      return fail("cannot write the plan to standard output");
  } else if (!arguments.output.empty()) {
    std::ofstream file(arguments.output);
    if (file)
      writePlan(file, ranges, result);
    file.close();
    if (!file)
      return fail("cannot write '" + arguments.output + "'");
  }
  if (arguments.report) {
    double ratio = result.lowerBound > 0
                       ? static_cast<double>(result.arenaBytes) /
                             static_cast<double>(result.lowerBound)
                       : 1.0;
    // The plan itself may go to standard output.
    std::FILE *to = arguments.output == "-" ? stderr : stdout;
    std::fprintf(to,
                 "buffers      %zu\n"
                 "lower bound  %lld bytes\n"
                 "arena        %lld bytes\n"
                 "ratio        %.4f%s\n"
                 "order        %s\n"
                 "search nodes %lld\n",
                 ranges.size(), static_cast<long long>(result.lowerBound),
                 static_cast<long long>(result.arenaBytes), ratio,
                 result.optimal ? " (optimal)" : "", result.order.c_str(),
                 static_cast<long long>(result.searchNodes));
  }
  if (arguments.options.budget && result.arenaBytes > *arguments.options.budget)
    return fail("the arena of " + std::to_string(result.arenaBytes) +
                " bytes passes the budget of " +
                std::to_string(*arguments.options.budget) +
                (result.optimal
                     ? " bytes; no plan is smaller"
                     : " bytes; a higher --node-limit may find a smaller one"));
  return 0;
}
