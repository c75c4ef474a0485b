//===- QueuedCollectives.h - Collectives on a GPU's queues ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_QUEUEDCOLLECTIVES_H
#define OPTIMUS_RUNTIME_QUEUEDCOLLECTIVES_H

#include "optimus-runtime/ControlPlane.h"
#include "optimus-runtime/Device.h"
#include "optimus-runtime/Status.h"

#include <cstdint>
#include <span>

namespace optrt {

/// A collective among the commands of a function.
struct PlannedCollective {
  uint32_t command;
  const optrt_collective_desc *desc;
};

/// One that starts, and its operands on this rank; null where it has none.
struct QueuedCollective {
  uint32_t command;
  const optrt_collective_desc *desc;
  const void *src;
  void *dst;
  /// The kernel that reduces it on the device, where the program has one.
  const optimus_kernel *kernel = nullptr;
};

/// One rank's end of all its groups where a back-end puts collectives on the
/// queues of GPUs: what is on a queue behind one comes after it, nothing waits
/// on the host, and a device may record them. Belongs to the rank's thread; the
/// device must outlive it.
class QueuedCollectives {
public:
  virtual ~QueuedCollectives() = default;

  /// Before the commands of a call are put on queues, or are replayed; these
  /// are empty. `planned` is what the call starts, in this order, and must stay
  /// until endCall().
  virtual void beginCall(uint32_t function,
                         std::span<const PlannedCollective> planned) = 0;

  /// Puts the next of these on a queue: one, or several of a mesh axis that
  /// start together, without waits among them. Operands lie in the device's
  /// memory, without gaps between rows; a matrix that is gathered, scattered or
  /// both has one row. Errors name the rank and the command, but for those that
  /// a device tells late.
  virtual Status enqueue(Queue queue,
                         std::span<const QueuedCollective> together) = 0;

  /// The first failure so far of work on queues, with the name of the command.
  virtual Status check() = 0;

  /// When the queues are empty, or have failed: the first failure of what was
  /// on them, with the name of the command.
  virtual Status endCall() = 0;

  /// Whether all ranks whose calls are recorded together want to record this
  /// one, or to replay it. Behind beginCall(), on each of them.
  virtual StatusOr<bool> agreeToRecord(bool own) { return own; }
  /// What records calls in place of the rank's device.
  virtual Recorder &recorder(Device &device) { return device; }

  /// Bytes of the GPU's memory that the back-end has taken so far.
  virtual int64_t heldBytes() const = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_QUEUEDCOLLECTIVES_H
