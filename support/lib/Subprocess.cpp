//===- Subprocess.cpp - Starting other tools --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Subprocess.h"

#include "optimus-support/InputFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace optimus_support;

std::string optimus_support::findTool(const std::string &name) {
  std::error_code failed;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path beside = self.parent_path() / name;
  return !failed && access(beside.c_str(), X_OK) == 0 ? beside.string() : name;
}

StatusOr<int>
optimus_support::runProgram(const std::vector<std::string> &command,
                            const std::string &log) {
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
  int failed = posix_spawnp(&child, arguments.front(), &actions, nullptr,
                            arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  while (failed == 0 && waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      failed = errno;
  if (failed != 0)
    return unavailable(
        concat("cannot run '", command.front(), "': ", std::strerror(failed)));
  return status;
}

std::string optimus_support::readLog(const std::string &log) {
  constexpr size_t kMostLogBytes = size_t(1) << 20;
  const StatusOr<std::string> said = readInput(log, kMostLogBytes);
  std::string text = said.ok() ? *said : "";
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}
