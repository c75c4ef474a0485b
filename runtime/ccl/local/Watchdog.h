//===- Watchdog.h - Notices thread ranks that stall -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_LOCAL_WATCHDOG_H
#define OPTIMUS_RUNTIME_CCL_LOCAL_WATCHDOG_H

#include "../Stall.h"
#include "base/Thread.h"

#include <functional>

namespace optrt {

/// A thread that watches the ranks of this process.
class Watchdog {
public:
  /// `onStall` is called once, on the watchdog's thread, and must end the
  /// process: a thread that stalls cannot be ended.
  Watchdog(std::vector<const RankActivity *> ranks, optimus_support::Mesh mesh,
           CommandNames names, double timeoutSeconds,
           std::function<void(const Status &)> onStall);
  Status start();

private:
  void work(std::unique_lock<std::mutex> &lock);

  const std::vector<const RankActivity *> ranks;
  const optimus_support::Mesh mesh;
  const CommandNames names;
  const double timeoutSeconds;
  const std::function<void(const Status &)> onStall;
  Worker worker;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_LOCAL_WATCHDOG_H
