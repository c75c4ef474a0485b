//===- Profile.h - When commands of a run took place ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_H
#define OPTIMUS_RUNTIME_PROFILE_H

#include "optimus-runtime/Rank.h"
#include "optimus-runtime/Session.h"
#include "optimus-runtime/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace optrt {

/// Steps [first, last] of a run.
struct StepRange {
  int64_t first = 1, last = INT64_MAX;
};

/// Writes when each command of a run took place into a file, as docs/profile.md
/// describes it: one a process. Ranks note times in memory, a thread writes
/// them, and a step is in the file as a whole or not at all. The file takes its
/// place when it is finished; one that was not described is not left.
///
/// Where the file cannot be written any more, recording ends, and the run goes
/// on: failure() says why.
class Profile {
public:
  /// Errors: those of OutputFile, and InvalidArgument where the name leads to
  /// anything but a regular file.
  static StatusOr<std::unique_ptr<Profile>> open(const std::string &path,
                                                 StepRange steps);
  ~Profile();
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  /// For SessionOptions::observe.
  CommandObserver *observe(const Rank &rank);

  /// Writes what the file is about before steps are: the session's functions,
  /// and `trace`, what else is known of the run by name.
  using Trace = std::vector<std::pair<std::string, std::string>>;
  Status describe(const Session &session, const ControlPlane &control,
                  const Trace &trace);

  /// Around a step, when ranks are idle. One that is not ended is not written.
  void beginStep(int64_t step);
  void endStep();

  /// Why recording ended before the run did, or success.
  Status failure() const;

  /// Waits until all is written, notes how the run ended, "finished", and puts
  /// the file in its place. Only the first call counts; from any thread.
  Status finish(const std::string &ending);

private:
  class Impl;
  explicit Profile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_H
