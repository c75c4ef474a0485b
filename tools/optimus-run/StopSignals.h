//===- StopSignals.h - Ending a run early but cleanly -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_STOPSIGNALS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_STOPSIGNALS_H

#include "optimus-runtime/World.h"

#include <array>
#include <csignal>

namespace optimus_run {

/// While it lives, the first SIGINT or SIGTERM is only noted; a second one ends
/// the process as usual. One at a time.
class StopSignals {
public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  /// The signal that some process of the job has got, or 0; the same in every
  /// process. Collective.
  int agreed(optrt::World &world) const;

private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before;
};

/// "SIGINT" or "SIGTERM".
const char *signalName(int signal);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_STOPSIGNALS_H
