//===- StopSignals.h - Ending a run early but cleanly -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_STOPSIGNALS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_STOPSIGNALS_H

#include "optimus-runtime/ControlPlane.h"

#include <string>
#include <vector>

namespace optimus_run {

/// What ends a run after a step.
struct Interruption {
  int signal = 0; ///< that some process has got, or 0
  optrt::Status failure;
  /// What each process has brought besides.
  std::vector<std::string> notes;

  explicit operator bool() const { return signal || !failure.ok(); }
};

/// While it lives, signals that ask for an end are only noted: SIGHUP, SIGINT,
/// SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 and SIGXCPU, apart from those that were
/// ignored before. The same signal once more has the effect that it had before,
/// unless it comes with the first: timeout(1) sends two. One object at a time.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// Whether some process of the job has got a signal or brings a failure; the
  /// same in every process. `note`, without spaces, goes to all. Collective.
  static Interruption agreed(optrt::ControlPlane &control,
                             const optrt::Status &own, const std::string &note);
};

/// For instance "SIGINT".
std::string signalName(int signal);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_STOPSIGNALS_H
