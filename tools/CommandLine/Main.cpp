//===- Main.cpp - Programs of one job -------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine/Main.h"

#include "optimus-support/Process.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

using namespace optimus_support;

/// Prints the error and returns the exit code.
static int fail(const char *program, const Status &status) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %serror: %s\n", program,
               status.code() == StatusCode::Internal ? "internal " : "",
               status.message().c_str());
  return status.exitCode();
}

static Status run(const std::function<StatusOr<std::string>()> &parse,
                  const std::function<Status()> &work) {
  StatusOr<std::string> asked = parse();
  if (!asked.ok())
    return asked.status();
  // A text longer than a stream's buffer fails here, with a reason.
  if (std::fputs(asked->c_str(), stdout) == EOF)
    return unavailable(
        concat("cannot write to standard output: ", strerror(errno)));
  return asked->empty() ? work() : okStatus();
}

int optimus_command_line::runMain(
    const char *program, const std::function<StatusOr<std::string>()> &parse,
    const std::function<Status()> &work) {
  startProcess();
  auto finish = [&](const Status &status) {
    return status.ok() ? 0 : fail(program, status);
  };
  StatusOr<int> ran = runOnLargeStack([&] { return finish(run(parse, work)); });
  const int code = ran.ok() ? *ran : finish(ran.status());
  Status end = finishStandardOutput();
  return code == 0 ? finish(end) : code;
}
