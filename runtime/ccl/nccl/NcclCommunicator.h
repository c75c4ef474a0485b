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

#include "ccl/queued/QueuedRank.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

namespace optrt::nccl {

/// A rank's place in a group.
struct Membership {
  UniqueId id; ///< of the group, the same for all members
  int size, index;
};

/// One rank's NCCL communicator. No call of NCCL blocks: a long one goes on by
/// itself and is polled, so that another thread can end it at any time.
class NcclCommunicator final : public QueuedCommunicator {
public:
  /// `timeoutSeconds` is how long the other members may take to join, or NCCL
  /// to take a collective; 0: for ever.
  NcclCommunicator(const NcclLibrary &library, Device &device,
                   double timeoutSeconds)
      : library(library), device(device), timeoutSeconds(timeoutSeconds) {}
  /// Ends whatever is under way, and waits for it.
  ~NcclCommunicator() override;

  /// Joins the group, with the device that is the thread's.
  Status join(const Membership &membership);
  Status check(const QueuedCollective &one) const override {
    return checkOneStretch("NCCL", *one.desc);
  }
  Status enqueue(std::span<const QueuedCollective> together,
                 Queue queue) override;
  Status leave() override;

  Status look() override;
  /// Here alone: streams go on, and results are undefined. ncclCommAbort gets a
  /// thread of its own, since it waits for what its caller may have to do.
  void abort() override;
  bool hasEnded() const override { return !isAborted || isReclaimed; }

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
  Device &device;
  const double timeoutSeconds;
  int size = 0;        ///< members
  std::mutex mutex;    ///< of all calls of NCCL but ncclCommAbort
  Comm comm = nullptr; ///< null before it joined and when it was aborted
  std::atomic<bool> isAborted = false, isReclaimed = false;
  std::mutex ending; ///< of the thread
  std::thread aborting;
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLCOMMUNICATOR_H
