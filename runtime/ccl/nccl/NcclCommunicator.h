//===- NcclCommunicator.h - A group of ranks that NCCL joins ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_NCCLCOMMUNICATOR_H
#define OPTIMUS_RUNTIME_CCL_NCCL_NCCLCOMMUNICATOR_H

#include "NcclLibrary.h"

#include "optimus-runtime/QueuedCollectives.h"

#include <functional>
#include <mutex>
#include <span>

namespace optrt::nccl {

/// A rank's place in a group.
struct Membership {
  UniqueId id; ///< of the group, the same for all members
  int size, index;
};

/// One rank's NCCL communicator. No call of NCCL blocks: what takes long goes
/// on by itself and is asked about, so that another thread can end it at any
/// time.
class NcclCommunicator {
public:
  /// `timeoutSeconds` is how long the other members may take to join, or NCCL
  /// to take a collective; 0: for ever.
  NcclCommunicator(const NcclLibrary &library, double timeoutSeconds)
      : library(library), timeoutSeconds(timeoutSeconds) {}
  /// Ends whatever is under way.
  ~NcclCommunicator() { abort(); }

  /// Joins the group, with the device that is the thread's.
  Status join(const Membership &membership);
  /// Whether NCCL moves it: Internal for anything but one stretch of memory.
  static Status check(const optrt_collective_desc &desc);
  /// Puts some that were checked on a stream, to start together.
  Status enqueue(std::span<const QueuedCollective> together, Stream stream);
  /// Leaves, when the others do, too, and nothing is under way.
  Status leave();

  /// What went wrong since it joined. Any thread.
  Status look();
  /// Ends what is under way, here alone: streams go on, results are undefined,
  /// and all calls from now on fail. Any thread.
  void abort();

private:
  /// One of NCCL's functions, and what it said.
  struct Called {
    const char *name;
    Result result;

    bool hasFailed() const {
      return result != kSuccess && result != kInProgress;
    }
  };
  /// Calls NCCL unless the communicator was aborted.
  Status call(const std::function<Called()> &body);
  /// Under the mutex.
  Called put(const QueuedCollective &one, Stream stream);
  Called exchange(const QueuedCollective &one, Stream stream);
  /// Returns when what was called last has come to an end.
  Status settle(const char *name);

  const NcclLibrary &library;
  const double timeoutSeconds;
  int size = 0;        ///< members
  std::mutex mutex;    ///< of all calls of NCCL
  Comm comm = nullptr; ///< null before it joined and when it was aborted
  bool isAborted = false;
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLCOMMUNICATOR_H
