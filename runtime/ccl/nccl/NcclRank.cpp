//===- NcclRank.cpp - One rank's collectives over NCCL --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclRank.h"

#include <algorithm>
#include <utility>

namespace optrt::nccl {

StatusOr<std::unique_ptr<NcclRank>>
NcclRank::join(const NcclLibrary &library, ControlPlane &control, int rank,
               Device &device, const std::vector<NcclGroup> &groups,
               double timeoutSeconds, QueueWatch &watch) {
  std::unique_ptr<NcclRank> joined(
      new NcclRank(control, rank, device, watch, timeoutSeconds));
  OPTRT_RETURN_IF_ERROR(joined->makeRoom(groups.size()));
  OPTRT_RETURN_IF_ERROR(joined->counting(
      [&] { return joined->joinAll(library, groups, timeoutSeconds); }));
  return joined;
}

Status NcclRank::counting(const std::function<Status()> &body) {
  OPTRT_ASSIGN_OR_RETURN(const int64_t before, device.freeBytes());
  OPTRT_RETURN_IF_ERROR(body());
  OPTRT_ASSIGN_OR_RETURN(const int64_t after, device.freeBytes());
  // Whatever else uses the GPU may have given some back meanwhile.
  bytes += std::max<int64_t>(0, before - after);
  return okStatus();
}

Status NcclRank::joinAll(const NcclLibrary &library,
                         const std::vector<NcclGroup> &all,
                         double timeoutSeconds) {
  std::vector<NcclCommunicator *> communicators;
  for (const NcclGroup &group : all) {
    auto made =
        std::make_unique<NcclCommunicator>(library, device, timeoutSeconds);
    communicators.push_back(made.get());
    add(group.name, std::move(made));
  }
  beginWatch();
  // NCCL takes the device that is the thread's.
  (void)device.nativeQueue(kCompute);
  for (size_t i = 0; i != all.size(); ++i)
    if (Status status = communicators[i]->join(all[i].membership);
        !status.ok()) {
      std::lock_guard lock(mutex);
      failure = status.withContext(concat("rank ", rank, " does not join ",
                                          all[i].members, " on ", all[i].name));
      return failure;
    }
  return okStatus();
}

} // namespace optrt::nccl
