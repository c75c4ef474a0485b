//===- Job.h - How this process joins the others ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TOOLING_JOB_H
#define OPTIMUS_RUNTIME_TOOLING_JOB_H

#include "optimus-runtime/Launcher.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/World.h"

#include <functional>
#include <optional>
#include <string>

namespace optrt {

/// What the user says of the job; the rest is the launcher's.
struct JobOptions {
  std::string backend;    ///< empty: found by itself
  std::string rendezvous; ///< HOST:PORT, or empty
  std::string secretFile; ///< or empty
  std::string bind;       ///< an IPv4 address, or empty
  std::optional<int> rank, ranks;
};

/// The program that joins a job.
struct JobProgram {
  std::string version; ///< "optimus-run 0.1": all ranks run the same
  /// Tells the user of something that is no failure.
  std::function<void(const std::string &sentence)> tell;
  /// As WatchOptions::onStall.
  std::function<void(const Status &status, bool speaks)> onEnd;
};

/// The launcher of this process, with the user's word first.
StatusOr<Launcher> findLauncherOf(const JobOptions &options);

/// Joins the job: with a back-end that works for it. `library` is what will be
/// run, or nothing: over TCP, ranks that do not fit it need not meet, and where
/// it is laid out for nodes, processes have the ranks of orderRanks(). `speaks`
/// becomes whether this process is to print a failure.
StatusOr<World> joinJob(const JobOptions &options, const JobProgram &program,
                        const Launcher &launcher,
                        const std::optional<LibraryFile> &library,
                        double timeoutSeconds, bool &speaks);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_JOB_H
