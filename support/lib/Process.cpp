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
#include <pthread.h>
#include <sys/resource.h>
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

StatusOr<int>
optimus_support::runOnLargeStack(const std::function<int()> &body) {
  constexpr size_t kBytes = size_t(8) << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kBytes)
    return body();
  // A process may not raise its limit, but give a thread a larger stack.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kBytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  struct Call {
    const std::function<int()> &body;
    int code = 0;
  } call{body};
  auto run = [](void *argument) -> void * {
    auto *call = static_cast<Call *>(argument);
    call->code = call->body();
    return nullptr;
  };
  pthread_t thread;
  if (int error = pthread_create(&thread, nullptr, run, &call))
    return unavailable(
        concat("cannot start a thread with a stack of ", kBytes,
               " bytes: ", strerror(error),
               "; raise the limit on stacks (`ulimit -s`), which "
               "is ",
               limit.rlim_cur, " bytes"));
  // Signals go to the others, which may wait for them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_join(thread, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return call.code;
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
