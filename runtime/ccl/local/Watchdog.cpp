//===- Watchdog.cpp - Notices thread ranks that stall ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Watchdog.h"

#include "../AwakeTime.h"

#include <algorithm>

namespace optrt {

Watchdog::Watchdog(std::vector<const RankActivity *> ranks,
                   optimus_support::Mesh mesh, CommandNames names,
                   double timeoutSeconds,
                   std::function<void(const Status &)> onStall)
    : ranks(std::move(ranks)), mesh(std::move(mesh)), names(std::move(names)),
      timeoutSeconds(timeoutSeconds), onStall(std::move(onStall)) {}

Status Watchdog::start() {
  return worker.start(
      "the thread that watches the ranks (--timeout 0 does without it)",
      [this](auto &lock) { work(lock); });
}

void Watchdog::work(std::unique_lock<std::mutex> &lock) {
  // Looks are close enough that a suspended process is noticed.
  const auto interval =
      std::min(std::chrono::duration<double>(kLongestLook) / 4,
               std::chrono::duration<double>(timeoutSeconds) / 5);
  auto isStopping = [this] { return worker.isStopping; };
  for (look(); !worker.wake.wait_for(lock, interval, isStopping); look()) {
    std::vector<RankReport> reports(ranks.size());
    for (std::size_t rank = 0; rank != ranks.size(); ++rank)
      reports[rank].activity = snapshot(*ranks[rank]);
    if (std::optional<Stall> stall =
            findStall(reports, mesh, names, timeoutSeconds)) {
      onStall(unavailable(stall->message));
      return;
    }
  }
}

} // namespace optrt
