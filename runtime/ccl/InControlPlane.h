//===- InControlPlane.h - A rank that waits for the others ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_INCONTROLPLANE_H
#define OPTIMUS_RUNTIME_CCL_INCONTROLPLANE_H

#include "optimus-runtime/ControlPlane.h"

#include <chrono>

namespace optrt {

/// While it lives, the rank waits for others outside any collective.
class InControlPlane {
public:
  /// `activity` may be null.
  explicit InControlPlane(RankActivity *activity,
                          int32_t place = RankActivity::kAgreement)
      : activity(activity) {
    if (!activity)
      return;
    activity->waitingAxis.store(place, std::memory_order_relaxed);
    activity->since.store(
        std::chrono::steady_clock::now().time_since_epoch().count(),
        std::memory_order_release);
  }
  ~InControlPlane() {
    if (activity)
      activity->since.store(0, std::memory_order_relaxed);
  }
  InControlPlane(const InControlPlane &) = delete;
  InControlPlane &operator=(const InControlPlane &) = delete;

private:
  RankActivity *const activity;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_INCONTROLPLANE_H
