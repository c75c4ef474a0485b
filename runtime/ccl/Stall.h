//===- Stall.h - Finds the rank that the others wait for --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_STALL_H
#define OPTIMUS_RUNTIME_CCL_STALL_H

#include "optimus-runtime/Collectives.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// A copy of a RankActivity, as heartbeats carry it.
struct ActivitySnapshot {
  std::array<uint64_t, RankActivity::kMaxAxes> started{};
  uint64_t waitingSequence = 0; ///< 0: it waits for a message
  double waitedSeconds = -1; ///< below 0: in no collective
  CommandId command, waitingCommand;
  int32_t waitingAxis = 0, waitingPeer = 0;

  bool waits() const { return waitedSeconds >= 0; }
};

/// Time for which this process was suspended is not waited.
ActivitySnapshot snapshot(const RankActivity &activity);

/// What is known of a rank.
struct RankReport {
  std::string place; ///< "process 17 on node4", or empty
  ActivitySnapshot activity;
  double silentSeconds = 0; ///< since it was last heard of
  bool gone = false;        ///< its process has ended without saying so
};

struct Stall {
  int rank; ///< the culprit
  /// Names the rank, its last command, and a collective that waits for it.
  std::string message;
};

/// The rank that died, or was silent for longer than `timeoutSeconds`, or has
/// let another wait as long for a collective's start, or has not come to a
/// meeting of all. Where that one waits itself for another, the last of them.
/// Commands are called by `names`.
std::optional<Stall> findStall(std::span<const RankReport> ranks,
                               const optimus_support::Mesh &mesh,
                               const CommandNames &names,
                               double timeoutSeconds);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_STALL_H
