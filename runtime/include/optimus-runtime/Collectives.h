//===- Collectives.h - How ranks exchange tensors ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_COLLECTIVES_H
#define OPTIMUS_RUNTIME_COLLECTIVES_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-runtime/ControlPlane.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Mesh.h"
#include "optimus-support/model_abi.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

class Device;
class QueuedCollectives;

/// One rank's end of the ranks that differ only on some mesh axes, as an
/// MPI_Comm or an ncclComm_t. Created once, used by one thread, in the order of
/// the queue that its commands are on (Device::call). All members start the
/// same collectives in the same order; each waits for them in any order. The
/// back-end checks what it can and names the commands where members differ;
/// otherwise its caller names the command of a failure. Messages are between
/// two members, and are received in the order in which they are sent.
///
/// Between start and wait the source must not be written and the destination
/// must not be touched. At most kMaxInFlight collectives may be started and
/// not yet waited for.
///
/// A collective makes progress while its members wait for anything, and, after
/// overlap(), while they compute.
class Communicator {
public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kMaxInFlight = OPTRT_MAX_IN_FLIGHT;

  virtual ~Communicator() = default;

  /// Number of members, and this rank's index among them: its index on the
  /// mesh axes.
  virtual int size() const = 0;
  virtual int index() const = 0;

  /// Starts the collective `id`, as MPI_Iallreduce and its like. The descriptor
  /// is copied, the buffers are borrowed until the wait returns.
  virtual Status start(CommandId id, const optrt_collective_desc &desc,
                       const void *src, void *dst) = 0;

  /// Waits for the collective that was started under `id`, as MPI_Wait: its
  /// destination is complete and its source may be reused. Fails when another
  /// rank failed.
  virtual Status wait(CommandId id) = 0;

  /// The rank goes on to something else: whatever it has started on any of its
  /// communicators must progress without it. Costs nothing when all is done;
  /// a start that is waited for at once needs none, and wakes no thread.
  virtual void overlap() = 0;

  /// How many bytes the back-end keeps at most to have such a collective under
  /// way, each kind of its buffers for itself: collectives that follow each
  /// other share them kind by kind.
  virtual std::vector<int64_t>
  bufferBytes(const optrt_collective_desc &) const {
    return {};
  }

  /// When the collective of the last wait() was complete on this rank, as far
  /// as the back-end knows: at the latest when the wait returned.
  virtual Clock::time_point completionOfLastWait() const = 0;

protected:
  static Status tooManyInFlight();
  static Status notStarted();
};

/// "broadcast", "reduce", ... for an OPTRT_BROADCAST ...
std::string_view collectiveName(int32_t kind);

/// Whether it is one end of a message, whose other end is the rank `root`.
constexpr bool isMessage(int32_t kind) {
  return kind == OPTRT_SEND || kind == OPTRT_RECEIVE;
}

/// Whether a rank's source, or its destination, has a block of each rank.
constexpr bool readsBlocks(int32_t kind) {
  return kind == OPTRT_REDUCE_SCATTER || kind == OPTRT_ALL_TO_ALL;
}
constexpr bool writesBlocks(int32_t kind) {
  return kind == OPTRT_ALL_GATHER || kind == OPTRT_ALL_TO_ALL;
}

/// Whether a rank has a source, or a destination.
constexpr bool hasSource(int32_t kind, bool isRoot) {
  return kind == OPTRT_BROADCAST ? isRoot : kind != OPTRT_RECEIVE;
}
constexpr bool hasDestination(int32_t kind, bool isRoot) {
  return kind == OPTRT_REDUCE ? isRoot : kind != OPTRT_SEND;
}

/// Whether a kind of collective reduces; the others move elements of any type.
constexpr bool addsUp(int32_t kind) {
  return kind == OPTRT_REDUCE || kind == OPTRT_ALL_REDUCE ||
         kind == OPTRT_REDUCE_SCATTER;
}

/// The communicators of a process's ranks. A back-end may be joined with the
/// control plane of another, which knows the ranks.
class Collectives {
public:
  /// Mesh axes, slowest first. The ranks that differ only on these make up a
  /// group.
  using Axes = std::vector<int>;

  virtual ~Collectives() = default;

  /// As on the command line: "local", "nccl".
  virtual std::string_view name() const = 0;

  /// Makes a communicator for each of `axes` and each rank of this process, as
  /// MPI_Comm_split and ncclCommSplit; those of an earlier call are gone. The
  /// ranks are laid out on the mesh. Collective; a failure may be that of this
  /// process alone.
  virtual Status createGroups(ControlPlane &control,
                              const optimus_support::Mesh &mesh,
                              std::span<const Axes> axes) = 0;

  /// That of a rank of this process for the `group`th of these.
  virtual Communicator &communicator(int rank, int group) = 0;

  /// Whether it is for GPUs alone, of which each rank has one.
  virtual bool needsGpus() const { return false; }
  /// Whether it puts collectives on the queues of such devices: then ranks have
  /// what connect() returns in place of communicator(). After createGroups().
  virtual bool isQueued(std::string_view /*device*/) const {
    return needsGpus();
  }
  /// Joins a rank of this process, whose device it is, with the others, on the
  /// rank's thread and at the same time as all others: the others may take so
  /// long to come, and 0: for ever. All are given back at the same time, too.
  virtual StatusOr<std::unique_ptr<QueuedCollectives>>
  connect(int rank, Device &device, double timeoutSeconds);

  /// Says how many threads a rank computes with, and on how many cores, so that
  /// progress takes no core from them. After createGroups().
  virtual void expectThreads(int threadsPerRank, int coresPerRank) = 0;

  /// A sentence when collectives do not move while ranks compute, otherwise
  /// empty.
  virtual std::string overlapNotice() const { return ""; }

  /// Makes every rank of this process that waits, now or later, leave its wait
  /// with an error, where the back-end can, as ncclCommAbort. Returns at once.
  /// Called by a rank that cannot go on, from any thread; `reason` is its
  /// failure.
  virtual void abort(const Status &reason) = 0;
};

/// Among threads of this process.
std::unique_ptr<Collectives> createLocalCollectives();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_COLLECTIVES_H
