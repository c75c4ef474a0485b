//===- Rank.h - The execution state of one rank -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_RANK_H
#define OPTIMUS_RUNTIME_RANK_H

#include "optimus-runtime/Device.h"
#include "optimus-runtime/Manifest.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace optrt {

/// What one rank communicated on one mesh axis.
struct Traffic {
  int64_t bytes = 0;    ///< by the rule of docs/manifest.md, see count()
  int64_t messages = 0; ///< collectives started
};

/// Seconds of one rank. A collective is in flight from when the rank begins to
/// start it until it is complete, and while the rank is inside its start or
/// wait; time with several in flight counts once. What is exposed is spent
/// inside starts and waits, where the rank computes nothing: never more than is
/// in flight.
struct CommunicationTime {
  double inFlight = 0, exposed = 0;
};

/// The bytes of a collective among n ranks by the rule of docs/manifest.md,
/// summed over these ranks: with S the bytes of the whole tensor, 2(n-1)S for
/// all_reduce and (n-1)S for all others.
int64_t collectiveBytes(const optrt_collective_desc &desc, int64_t n);

} // namespace optrt

/// What model_abi.h calls a rank. Belongs to the rank's thread.
struct optrt_rank {
  /// `mesh` and the world, which is configured, must outlive the rank.
  optrt_rank(const optrt::Mesh &mesh, optrt::World &world, int rank,
             std::unique_ptr<optrt::Device> device);

  const optrt::Mesh &mesh;
  const int rank;
  const std::unique_ptr<optrt::Device> device;
  /// One a mesh axis.
  std::vector<optrt::Communicator *> communicators;
  /// One a mesh axis. A collective's bytes are counted by the rank with index
  /// 0 on its axis, so that the sum over ranks is the manifest's number.
  std::vector<optrt::Traffic> traffic;
  /// The collectives that were started and not waited for.
  struct StartedCollective {
    uint32_t command;
    int32_t axis, kind;
    uint64_t sequence; ///< of its axis, from 1
    optrt::Communicator::Clock::time_point begin;
  };
  std::vector<StartedCollective> startedCollectives;
  /// What those watch who watch this rank.
  optrt::RankActivity &activity;

  /// When something was in flight, and the time exposed on each axis, since
  /// resetCounters().
  struct Interval {
    int32_t axis;
    optrt::Communicator::Clock::time_point begin, end;
  };
  std::vector<Interval> intervals;
  std::vector<optrt::Communicator::Clock::duration> exposed;

  /// Sets traffic and times to zero.
  void resetCounters();
  /// Times since resetCounters(), one entry a mesh axis and one for all axes
  /// together.
  std::vector<optrt::CommunicationTime> communicationTimes() const;
  /// The first failure of a command; stays.
  optrt::Status status;
};

#endif // OPTIMUS_RUNTIME_RANK_H
