//===- Trials.cpp - Plans of one program, side by side ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trials.h"

#include "optimus-support/Subprocess.h"

#include <CLI/StringTools.hpp>

#include <sys/wait.h>

using namespace optimus_simulate;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::Status;
using optimus_support::unavailable;

static constexpr const char *kCompiler = "optimus-compile";

static bool hasFlag(const std::vector<std::string> &flags,
                    const std::string &name) {
  for (const std::string &flag : flags)
    if (flag == name || flag.starts_with(name + "="))
      return true;
  return false;
}

Status optimus_simulate::compilePlan(const Arguments &arguments,
                                     const std::string &flags,
                                     const std::string &plan) {
  std::vector<std::string> command{optimus_support::findTool(kCompiler),
                                   arguments.library};
  std::vector<std::string> given = CLI::detail::split_up(flags);
  for (std::string &flag : given)
    CLI::detail::remove_quotes(flag);
  for (const char *own : {"-o", "--plan"})
    if (hasFlag(given, own))
      return invalidArgument(concat("--try: expected no ", own, " in '", flags,
                                    "'; the plan is written where it is read"));
  command.insert(command.end(), given.begin(), given.end());
  if (!arguments.machineProfile.empty() && !hasFlag(given, "--machine-profile"))
    command.insert(command.end(),
                   {"--machine-profile", arguments.machineProfile});
  command.insert(command.end(), {"--plan", "-o", plan});
  const std::string log = plan + ".log";
  auto ended = optimus_support::runProgram(command, log);
  if (!ended.ok())
    return ended.status().withContext("--try");
  const int status = *ended;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return optimus_support::okStatus();
  std::string text = optimus_support::readLog(log);
  if (const std::string own = concat(kCompiler, ": error: ");
      text.starts_with(own))
    text.erase(0, own.size());
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
    return invalidArgument(concat("--try '", flags, "': ", text));
  return unavailable(concat(
      "--try '", flags, "': ", kCompiler, " ended with ",
      WIFEXITED(status) ? "status " : "signal ",
      WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), ": ", text));
}
