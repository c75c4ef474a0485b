//===- NcclRank.h - One rank's collectives over NCCL ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_NCCLRANK_H
#define OPTIMUS_RUNTIME_CCL_NCCL_NCCLRANK_H

#include "NcclCommunicator.h"

#include <memory>
#include <string>
#include <vector>

namespace optrt::nccl {

/// A rank's place in a group, and the group's name for people.
struct NcclGroup {
  Membership membership;
  std::string name;    ///< "mesh axis row"
  std::string members; ///< "ranks 0, 2"
};

class NcclRank final : public QueuedRank {
public:
  /// Joins all groups, in their order; the device is the rank's.
  static StatusOr<std::unique_ptr<NcclRank>>
  join(const NcclLibrary &library, ControlPlane &control, int rank,
       Device &device, const std::vector<NcclGroup> &groups,
       double timeoutSeconds, QueueWatch &watch);
  ~NcclRank() override { leave(); }

  int64_t heldBytes() const override { return bytes; }

private:
  NcclRank(ControlPlane &control, int rank, Device &device, QueueWatch &watch,
           double timeoutSeconds)
      : QueuedRank(control, rank, device, watch, timeoutSeconds) {}
  Status joinAll(const NcclLibrary &library, const std::vector<NcclGroup> &all,
                 double timeoutSeconds);
  Status put(const std::function<Status()> &start, bool isFirst) override {
    return isFirst ? counting(start) : start();
  }
  /// Does what NCCL may take memory for: joining and, for its connections, what
  /// a group does first.
  Status counting(const std::function<Status()> &body);

  int64_t bytes = 0; ///< of the GPU's memory, that NCCL took
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLRANK_H
