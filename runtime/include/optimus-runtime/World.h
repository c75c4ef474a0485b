//===- World.h - The ranks of a job and their communicators -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A World is one process's view of a job. With the `local` back-end a process
// runs every rank as a thread; with `mpi` it runs one. A back-end implements
// the collectives of model_abi.h and a little control plane; everything above
// it is written once.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_WORLD_H
#define OPTIMUS_RUNTIME_WORLD_H

#include "optimus-runtime/Status.h"
#include "optimus-support/model_abi.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// One rank's end of the ranks that differ only in one mesh axis. Created
/// once, used by one thread. All members start the same collectives in the
/// same order; each waits for them in any order. The back-end checks what it
/// can and names the command where members differ.
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
  /// mesh axis.
  virtual int size() const = 0;
  virtual int index() const = 0;

  /// Starts the collective `id`. The descriptor is copied, the buffers are
  /// borrowed until the wait returns.
  virtual Status start(uint32_t id, const optrt_collective_desc &desc,
                       const float *src, float *dst) = 0;

  /// Waits for the collective that was started under `id`: its destination is
  /// complete and its source may be reused. Fails when another rank failed.
  virtual Status wait(uint32_t id) = 0;

  /// The rank goes on to something else: whatever it has started on any of its
  /// communicators must progress without it. Costs nothing when all is done;
  /// a start that is waited for at once needs none, and wakes no thread.
  virtual void overlap() = 0;

  /// When the collective of the last wait() was complete on this rank, as far
  /// as the back-end knows: at the latest when the wait returned.
  virtual Clock::time_point completionOfLastWait() const = 0;

protected:
  static Status tooManyInFlight(uint32_t id);
  static Status notStarted(uint32_t id);
};

/// "broadcast", "reduce", ... for an OPTRT_BROADCAST ...
std::string_view collectiveName(int32_t kind);

/// The cores that this process may use.
int usableCores();

/// What a rank is doing. Its thread writes; whoever watches the rank reads, at
/// any time.
struct RankActivity {
  static constexpr int kMaxAxes = 8;

  /// The command that began last.
  std::atomic<uint32_t> command{0};
  /// How many collectives the rank has begun to start on each mesh axis.
  std::array<std::atomic<uint64_t>, kMaxAxes> started{};
  /// Ticks of Communicator::Clock at which the rank entered a collective's
  /// start or wait; 0 while it is in none. The rest says in which, and is
  /// written before.
  std::atomic<int64_t> since{0};
  std::atomic<uint32_t> waitingCommand{0};
  std::atomic<int32_t> waitingKind{0}, waitingAxis{0};
  /// Which of the axis's collectives, from 1. Axis -1 stands for the control
  /// plane, where a rank may wait as long as it takes.
  std::atomic<uint64_t> waitingSequence{0};
};

/// How ranks that die or stall are noticed.
struct WatchOptions {
  /// How long a rank may be silent, or keep others waiting in a collective;
  /// 0: nobody watches.
  double timeoutSeconds = 0;
  std::vector<std::string> axisNames; ///< of the mesh
  /// Called once in every process, on a thread of the back-end's, with who is
  /// to blame; must end the process. `speaks` is true in the one that prints.
  std::function<void(const Status &status, bool speaks)> onStall;
};

/// A setting that all ranks must share.
struct Setting {
  std::string name, value;
};

/// The ranks of one job.
class World {
public:
  virtual ~World() = default;

  /// The back-end's name, as on the command line.
  virtual std::string_view name() const = 0;

  /// Lays the ranks out on a mesh (first axis slowest) and creates one
  /// communicator for every axis and rank of this process; those of an earlier
  /// call are gone. Fails when the job has another number of ranks than the
  /// mesh.
  virtual Status configure(std::span<const int64_t> axisSizes) = 0;

  /// Says how many threads a rank computes with, so that progress takes no core
  /// from them. After configure().
  virtual void expectThreads(int threadsPerRank) = 0;

  /// A sentence when collectives do not move while ranks compute, otherwise
  /// empty.
  virtual std::string overlapNotice() const { return ""; }

  /// Number of ranks of the job; for thread ranks 1 until configured.
  virtual int size() const = 0;

  /// This process runs the ranks [firstRank(), firstRank() + numLocalRanks()).
  virtual int firstRank() const = 0;
  virtual int numLocalRanks() const = 0;

  /// How many of the job's ranks run on this machine.
  virtual int ranksOnThisHost() const = 0;

  /// The communicator of a rank of this process on a mesh axis.
  virtual Communicator &communicator(int rank, int axis) = 0;

  /// What a rank of this process is doing; lives until the next configure().
  virtual RankActivity &activity(int rank) = 0;

  /// Starts to watch the ranks, until the next configure(). Called by every
  /// process at the same point. A rank that dies, or keeps the others waiting
  /// in a collective for longer than the timeout, ends the job.
  ///
  /// Errors: Unavailable when processes cannot reach each other.
  virtual Status watch(WatchOptions options) = 0;

  /// Makes every rank that waits, now or later, leave its wait with an error.
  /// Called by a rank that cannot go on, from any thread.
  virtual void abort() = 0;

  /// Control plane, called by the main thread of every process at the same
  /// point: the strings of all processes, in rank order.
  virtual std::vector<std::string> allGather(const std::string &own) = 0;

  /// Control plane: moves rank `rank`'s `count` floats to the root process.
  /// `data` is read on the process of `rank` and written on the root process;
  /// others need not call it. Nothing happens when they are the same process.
  virtual Status sendToRoot(int rank, float *data, std::size_t count) = 0;

  /// Ends the whole job at once with an exit code, without waiting for the
  /// other processes.
  [[noreturn]] virtual void exitJob(int code) = 0;

  /// True in the process that speaks to the user.
  bool isRoot() const { return firstRank() == 0; }

  /// A status as text for allGather(), and back; Internal for a text that is
  /// none. Success is an empty text.
  static std::string encode(const Status &status);
  static Status decode(std::string_view text);

  /// Control plane: success if every process brings success, otherwise the
  /// error of the lowest rank that brings one, in every process.
  Status agree(Status own);

  /// Control plane: InvalidArgument, in every process, when a rank has other
  /// settings than rank 0; the message names it and what differs. All bring the
  /// same names in the same order.
  Status checkSame(std::span<const Setting> settings);
};

/// All ranks as threads of this process.
std::unique_ptr<World> createLocalWorld();

/// One rank a process, over MPI: opens the plugin liboptimus_ccl_mpi.so in
/// `../lib` beside the executable, or the file in $OPTIMUS_CCL_MPI_LIBRARY.
StatusOr<std::unique_ptr<World>> createMpiWorld();

/// What a back-end plugin exports as `optimus_ccl_create`: makes a World, or
/// returns null and writes why into `error`.
using CreateWorldFn = World *(*)(char *error, std::size_t errorSize);

/// True when this process was started by mpirun.
bool startedByMpirun();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_WORLD_H
