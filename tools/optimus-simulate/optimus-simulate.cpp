//===- optimus-simulate.cpp - What a model library would take ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 the answer is written, 1 the input or a flag is wrong, 2 a
// fault of ours.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "SimulateLibrary.h"

#include "optimus-support/Process.h"

#include <cstdio>

using namespace optimus_simulate;
using namespace optimus_support;

/// Prints the error and returns the exit code.
static int fail(const Status &status) {
  std::fflush(stdout);
  std::fprintf(stderr, "optimus-simulate: %serror: %s\n",
               status.code() == StatusCode::Internal ? "internal " : "",
               status.message().c_str());
  return status.exitCode();
}

static int run(int argc, char **argv) {
  Arguments arguments;
  StatusOr<std::string> asked = parseCommandLine(argc, argv, arguments);
  if (!asked.ok())
    return fail(asked.status());
  std::fputs(asked->c_str(), stdout);
  if (!asked->empty())
    return 0;
  Status status = simulateLibrary(arguments);
  return status.ok() ? 0 : fail(status);
}

int main(int argc, char **argv) {
  startProcess();
  StatusOr<int> ran = runOnLargeStack([&] { return run(argc, argv); });
  const int code = ran.ok() ? *ran : fail(ran.status());
  Status end = finishStandardOutput();
  return code == 0 && !end.ok() ? fail(end) : code;
}
