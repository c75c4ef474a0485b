//===- Trials.cpp - Plans of one program, side by side ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trials.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/TemporaryPath.h"

#include <CLI/StringTools.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace optimus_simulate;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::Status;
using optimus_support::unavailable;

static constexpr const char *kCompiler = "optimus-compile";

/// That of this build; else the one in PATH.
static std::string findCompiler() {
  std::error_code failed;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path beside = self.parent_path() / kCompiler;
  return !failed && access(beside.c_str(), X_OK) == 0 ? beside.string()
                                                      : kCompiler;
}

/// Runs a program whose output goes to a file; its status as waitpid() has it,
/// or an errno.
static int run(const std::vector<std::string> &command, const std::string &log,
               int &status) {
  std::vector<char *> arguments;
  for (const std::string &one : command)
    arguments.push_back(const_cast<char *>(one.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments.front(), &actions, nullptr,
                                  arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return failed;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return errno;
  return 0;
}

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
  std::vector<std::string> command{findCompiler(), arguments.library};
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
  int status = 0;
  if (const int failed = run(command, log, status))
    return unavailable(concat("--try: cannot run '", command.front(),
                              "': ", std::strerror(failed)));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return optimus_support::okStatus();
  constexpr size_t kMostLogBytes = size_t(1) << 20;
  auto said = optimus_support::readInput(log, kMostLogBytes);
  std::string text = said.ok() ? *said : "";
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
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
