//===- LocalRank.h - One rank of a session ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_LOCALRANK_H
#define OPTIMUS_RUNTIME_SESSION_LOCALRANK_H

#include "RankBuffers.h"
#include "optimus-runtime/Session.h"
#include "program/BoundProgram.h"

#include <optional>
#include <vector>

namespace optrt {

struct Session::BatchPart : BatchRows {
  std::vector<int32_t> HostBatch::Rows::*words; ///< of these rows
  int32_t padding;                              ///< beyond the sequence
};

/// One rank of this process.
struct Session::LocalRank {
  LocalRank(const Mesh &mesh, World &world, int rank,
            std::unique_ptr<Device> device, const RankPlan &plan)
      : plan(plan), context(mesh, world, rank, std::move(device)) {}

  const RankPlan &plan;
  Rank context;
  CommandObserver *observer = nullptr; ///< of the calls that it wants to see
  RankBuffers buffers;
  std::vector<BatchPart> batchParts;
  std::vector<int64_t> lanes; ///< their numbers, by their places here
  LaneRange range;            ///< of the places, in the present call
  SpaceMemory arenas;
  /// Of the last run, all its calls together.
  Transfers transfers;
  bool hasSubnormals = false; ///< worked on them in the last run
  /// One a callable; none where the rank's table has no such function.
  std::vector<std::optional<BoundProgram>> programs;
  int64_t communicationBytes = 0;     ///< that its communicators keep
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_LOCALRANK_H
