//===- SessionMeasures.h - Bytes and times of ranks -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSIONMEASURES_H
#define OPTIMUS_RUNTIME_SESSIONMEASURES_H

#include "optimus-runtime/Rank.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace optrt {

/// The rank that loses most time to communication in a run.
struct SlowestRank {
  int rank = 0;
  CommunicationTime total;             ///< over all mesh axes
  std::vector<CommunicationTime> axes; ///< one entry a mesh axis
};

/// Bytes one rank holds. Buffers count by how long they live.
struct RankMemory {
  int64_t parameters = 0;
  int64_t state = 0;     ///< the optimizer's
  int64_t gradients = 0; ///< what belongs to a parameter for a call or sequence
  int64_t inputs = 0;    ///< what belongs to none: inputs, results, caches
  int64_t arena = 0;
  int64_t device = 0;        ///< scratch of the device's threads
  int64_t communication = 0; ///< buffers of collectives, at most
  int64_t offloaded = 0;     ///< in a scratch file, beside the total
  /// Of parameters of which prepared weights alone are held, while they are
  /// set: at most, beside the total.
  int64_t staging = 0;
  /// Of its GPU, of all ranks there, beside the total: code, libraries and
  /// recorded steps, as measured.
  int64_t code = 0;
  /// Of checkpoints that are written behind steps: of its process, on the host,
  /// beside the total.
  int64_t snapshot = 0;
  int64_t total() const {
    return parameters + state + gradients + inputs + arena + device +
           communication;
  }
};

/// What ranks copied between the device's memory and another one in a run.
struct PagingTime {
  int64_t bytesIn = 0, bytesOut = 0; ///< of all ranks
  double seconds = 0;                ///< while copies were under way
  double exposed = 0;                ///< of which nothing else was done
  /// 1 where nothing is copied.
  double hiddenShare() const {
    return seconds > 0 ? std::max(0.0, 1 - exposed / seconds) : 1;
  }
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSIONMEASURES_H
