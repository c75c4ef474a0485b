//===- join.h - A benchmark's ranks meet ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_BENCH_JOIN_H
#define OPTIMUS_BENCH_JOIN_H

#include "optimus-runtime/World.h"

#include <cstdio>
#include <string>

namespace optimus_bench {

constexpr double kTimeoutSeconds = 120;

/// Says why a benchmark of this name ends, and returns its code.
inline int fail(const char *name, const optrt::Status &status) {
  std::fprintf(stderr, "optimus-bench-%s: error: %s\n", name,
               status.message().c_str());
  return status.exitCode();
}

/// Meets the other ranks as their launcher says. Stalls are reported to
/// `onStall`.
inline optrt::StatusOr<optrt::World>
join(const std::string &backend,
     void (*onStall)(const optrt::Status &status, bool speaks)) {
  OPTRT_ASSIGN_OR_RETURN(optrt::Launcher launcher, optrt::findLauncher());
  OPTRT_ASSIGN_OR_RETURN(std::string chosen,
                         optrt::chooseBackend(launcher, backend));
  if (chosen == "mpi")
    return optrt::createMpiWorld();
  optrt::TcpJob job = optrt::tcpJobOf(launcher);
  job.timeoutSeconds = kTimeoutSeconds;
  job.onStall = onStall;
  bool isSaidElsewhere = false;
  return optrt::createTcpWorld(std::move(job), isSaidElsewhere);
}

} // namespace optimus_bench

#endif // OPTIMUS_BENCH_JOIN_H
