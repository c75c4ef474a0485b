//===- InFlightSlots.h - Collectives that are not waited for ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_INFLIGHTSLOTS_H
#define OPTIMUS_RUNTIME_CCL_INFLIGHTSLOTS_H

#include "optimus-runtime/Collectives.h"

#include <memory>
#include <span>
#include <vector>

namespace optrt {

/// The collectives of a communicator between start and wait, each at a fixed
/// place. An InFlight has a member `used`, true from its start to its wait, and
/// the command's `id`; its buffers serve the next one.
template <typename InFlight>
class InFlightSlots {
public:
  /// The first unused one, so that few buffers grow large; null where as many
  /// are as may be.
  InFlight *findFree() {
    for (std::unique_ptr<InFlight> &one : slots)
      if (!one->used)
        return one.get();
    if (slots.size() == Communicator::kMaxInFlight)
      return nullptr;
    return slots.emplace_back(std::make_unique<InFlight>()).get();
  }

  /// The one that a command started; null where none did.
  InFlight *find(CommandId id) {
    for (std::unique_ptr<InFlight> &one : slots)
      if (one->used && one->id == id)
        return one.get();
    return nullptr;
  }

  /// All that there ever were at a time.
  std::span<const std::unique_ptr<InFlight>> all() const { return slots; }

private:
  std::vector<std::unique_ptr<InFlight>> slots;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_INFLIGHTSLOTS_H
