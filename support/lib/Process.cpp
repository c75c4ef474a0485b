//===- Process.cpp - What every tool does first and last ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Process.h"

#include "optimus-support/TemporaryPath.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <unistd.h>

using namespace optimus_support;

void optimus_support::startProcess() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF)
      continue;
    // The wrong way round: reads and writes go on failing. The lowest free
    // number is this one.
    int mode = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] int same = ::open("/dev/null", mode);
  }
  signal(SIGXFSZ, SIG_IGN);
  removeTemporariesOnSignals();
}

Status optimus_support::finishStandardOutput() {
  errno = 0;
  // Both, even if one fails: what can be written is.
  bool streamed = bool(std::cout.flush());
  bool printed = std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (streamed && printed)
    return okStatus();
  // An earlier failure has left no reason.
  return unavailable(concat("cannot write to standard output",
                            errno ? concat(": ", strerror(errno))
                                  : std::string(" all that was printed")));
}
