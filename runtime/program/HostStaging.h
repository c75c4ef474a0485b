//===- HostStaging.h - Collectives by way of the host -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_HOSTSTAGING_H
#define OPTIMUS_RUNTIME_PROGRAM_HOSTSTAGING_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/ControlPlane.h"
#include "optimus-runtime/Device.h"

#include <list>
#include <optional>

namespace optrt {

/// Moves collectives through memory of the host, where that of a device cannot
/// be addressed there: operands are copied before a collective starts, and what
/// it writes after it was waited for. Memory is kept for the next ones, so that
/// later steps allocate none.
class HostStaging {
public:
  explicit HostStaging(Device &device) : device(device) {}

  /// A collective as the host sees it, its rows without gaps; stays until it is
  /// finished.
  struct Staged {
    optrt_collective_desc desc;
    char *from, *to; ///< null where the rank reads or writes nothing
  };
  /// What this rank is among those of a collective.
  struct Member {
    int64_t ranks;
    bool isRoot;
  };
  /// Puts the copy of what this rank reads on the collective's queue. `desc`
  /// was checked.
  StatusOr<const Staged *> begin(Queue queue, CommandId id,
                                 const optrt_collective_desc &desc,
                                 Member member, const void *src, void *dst);
  /// Puts the copy of its result on the queue of the wait.
  Status finish(Queue queue, CommandId id);
  /// The queues are empty.
  void restart();

private:
  struct Room {
    DeviceMemory memory;
    bool isTaken = false;
    /// Behind the last copy from it.
    std::optional<Event> lastUse;
  };
  struct UnderWay {
    CommandId id;
    Staged staged;
    Room *from, *to; ///< may be one; null for none
    void *result;    ///< where it goes on the device, or null
    optrt_copy_desc back;
  };

  StatusOr<Room *> take(Queue queue, int64_t bytes);

  Device &device;
  std::list<Room> rooms;
  std::list<UnderWay> underWay;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_HOSTSTAGING_H
