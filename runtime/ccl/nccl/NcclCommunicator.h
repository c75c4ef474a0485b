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

#include "optimus-support/model_abi.h"

#include <functional>
#include <mutex>

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
  /// Puts a collective, which was checked, on a stream.
  Status enqueue(const optrt_collective_desc &desc, const void *src, void *dst,
                 Stream stream);
  /// Leaves, when the others do, too, and nothing is under way.
  Status leave();

  /// What went wrong since it joined. Any thread.
  Status look();
  /// Ends what is under way, here alone: streams go on, results are undefined,
  /// and all calls from now on fail. Any thread.
  void abort();

private:
  /// Calls NCCL unless the communicator was aborted.
  Status call(const char *name, const std::function<Result()> &body);
  /// Returns when what was called last has come to an end.
  Status settle(const char *name);

  const NcclLibrary &library;
  const double timeoutSeconds;
  std::mutex mutex;    ///< of all calls of NCCL
  Comm comm = nullptr; ///< null before it joined and when it was aborted
  bool isAborted = false;
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLCOMMUNICATOR_H
