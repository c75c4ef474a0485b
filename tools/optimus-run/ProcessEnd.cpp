//===- ProcessEnd.cpp - How the process ends where it cannot go on --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProcessEnd.h"

#include "Commands.h"

#include "optimus-runtime/Exception.h"
#include "optimus-support/TemporaryPath.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <execinfo.h>
#include <malloc.h>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

using namespace optrt;
using namespace optimus_run;

void optimus_run::printFailure(const Status &status) {
  std::fflush(stdout);
  if (status.code() == StatusCode::Internal)
    std::fprintf(stderr,
                 "optimus-run: internal error: %s [%s:%d]\nThis is a fault of "
                 "Optimus; please report it.\n",
                 status.message().c_str(), std::string(status.file()).c_str(),
                 status.line());
  else
    std::fprintf(stderr, "optimus-run: error: %s\n", status.message().c_str());
}

void optimus_run::reportEnd(const Status &status, bool speaks) {
  if (speaks)
    printFailure(status);
  optimus_support::removeTemporaries();
}

Status optimus_run::failJob(ControlPlane &control, Status status) {
  if (control.numLocalRanks() == control.size())
    return status;
  printFailure(status);
  optimus_support::removeTemporaries();
  control.exitJob(status.exitCode());
  return status;
}

static void prepareForWantOfMemory() {
  // The C library opens its unwinder when first needed, perhaps when no memory
  // is left.
  void *frame;
  backtrace(&frame, 1);
  // Every thread's heap would reserve 64 MiB of addresses, of which there are
  // few then.
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    mallopt(M_ARENA_MAX, 1);
}

/// An exception of a library's thread, or of a function that must not throw.
[[noreturn]] static void endAfterException() {
  if (!std::current_exception())
    std::abort();
  // What one thread lacks, others soon lack too.
  static std::atomic_flag isEnding;
  while (isEnding.test_and_set())
    pause();
  try {
    throw;
  } catch (const std::bad_alloc &error) {
    // Perhaps from making the message of another; this one takes no memory.
    std::fprintf(stderr,
                 "optimus-run: error: out of memory: %s; use fewer ranks or "
                 "threads, or allow more (ulimit -v)\n",
                 error.what());
    optimus_support::removeTemporaries();
    std::_Exit(1);
  } catch (...) {
  }
  const Status status = statusOfException();
  reportEnd(status, /*speaks=*/true);
  std::_Exit(status.exitCode());
}

void optimus_run::prepareForFailures() {
  std::set_terminate(endAfterException);
  prepareForWantOfMemory();
}
