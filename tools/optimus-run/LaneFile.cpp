//===- LaneFile.cpp - The runs of train --lanes ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaneFile.h"

#include "optimus-support/InputFile.h"

#include <CLI/StringTools.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

using namespace optrt;

namespace optimus_run {

/// Flags that are not a lane's own.
static constexpr const char *kOfAllLanes[] = {
    "--lanes",       "--microbatches", "--device",     "--threads-per-rank",
    "--scratch",     "--timeout",      "--backend",    "--rendezvous",
    "--secret-file", "--bind",         "--rank",       "--ranks",
    "--placement",   "--profile",      "--tune",       "--tf32",
    "--eager",       "--nvtx",         "--save-async", "--flush-subnormals"};

std::optional<std::string> takeLanes(std::vector<std::string> &arguments) {
  const std::string flag = "--lanes";
  if (arguments.empty() || arguments.front() != "train")
    return std::nullopt;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    std::string file;
    auto end = word + 1;
    if (word->starts_with(flag + "="))
      file = word->substr(flag.size() + 1);
    else if (*word == flag && end != arguments.end())
      file = *end++;
    if (file.empty())
      continue;
    arguments.erase(word, end);
    return file;
  }
  return std::nullopt;
}

/// The run that arguments ask for with those of a line of --lanes behind them.
static Status readLane(std::vector<std::string> arguments,
                       const std::string &text, CommandLine &line) {
  const std::vector<std::string> common = arguments;
  for (std::string &word : CLI::detail::split_up(text)) {
    const std::string flag = word.substr(0, word.find('='));
    if (std::ranges::find(kOfAllLanes, flag) != std::end(kOfAllLanes))
      return invalidArgument(concat(
          flag, " is not a lane's own; give it beside --lanes, for all"));
    arguments.push_back(std::move(word));
  }
  OPTRT_ASSIGN_OR_RETURN(const std::string asked,
                         parseArguments(std::move(arguments), line));
  if (!asked.empty() || line.subcommand != Subcommand::Train)
    return invalidArgument("expected the flags of a run of train");
  if (!line.train.lanes.empty())
    return invalidArgument("expected --lanes once");
  if (std::ranges::find(common, line.train.library) == common.end())
    return invalidArgument(concat("expected flags, and the library beside "
                                  "--lanes; found `",
                                  line.train.library, "`"));
  return okStatus();
}

Status readLanes(const std::vector<std::string> &arguments,
                 const std::string &file, CommandLine &line) {
  constexpr std::size_t kMostBytes = 1 << 20;
  OPTRT_ASSIGN_OR_RETURN(const std::string text,
                         optimus_support::readInput(file, kMostBytes));
  std::istringstream lines(text);
  std::vector<TrainLane> lanes;
  int64_t number = 0;
  for (std::string words; std::getline(lines, words);) {
    ++number;
    const std::size_t first = words.find_first_not_of(" \t\r");
    if (first == std::string::npos || words[first] == '#')
      continue;
    // Each is parsed as a command line of its own, the last one into `line`.
    line = CommandLine();
    OPTRT_RETURN_IF_ERROR(
        readLane(arguments, words, line)
            .withContext(concat("with the flags of ", file, ":", number)));
    lanes.push_back({concat("lane ", lanes.size()), line.train});
  }
  line.lanes = std::move(lanes);
  return line.lanes.empty()
             ? invalidArgument(
                   file +
                   " has no line with a run's flags; expected one a lane")
             : okStatus();
}

} // namespace optimus_run
