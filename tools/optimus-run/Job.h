//===- Job.h - How this process joins the others ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_JOB_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_JOB_H

#include "optimus-runtime/Launcher.h"
#include "optimus-runtime/World.h"

#include <optional>
#include <string>

namespace optimus_run {

/// What the command line says of the job; the rest is the launcher's.
struct JobOptions {
  std::string backend;    ///< empty: found by itself
  std::string rendezvous; ///< HOST:PORT, or empty
  std::string secretFile; ///< or empty
  std::string bind;       ///< an IPv4 address, or empty
  std::optional<int> rank, ranks;
};

/// The launcher of this process, with the command line's word first.
optrt::StatusOr<optrt::Launcher> findLauncherOf(const JobOptions &options);

/// Joins the job: with a back-end that works for it. `library` is what will be
/// run, or empty: over TCP, ranks that do not fit it need not meet. `speaks`
/// becomes whether this process is to print a failure.
optrt::StatusOr<optrt::World> joinJob(const JobOptions &options,
                                      const optrt::Launcher &launcher,
                                      const std::string &library,
                                      double timeoutSeconds, bool &speaks);

/// What a process does before it ends at once: WatchOptions::onStall.
void reportEnd(const optrt::Status &status, bool speaks);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_JOB_H
