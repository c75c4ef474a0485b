//===- World.h - A job's control plane and collectives ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_WORLD_H
#define OPTIMUS_RUNTIME_WORLD_H

#include "optimus-runtime/Collectives.h"
#include "optimus-runtime/ControlPlane.h"
#include "optimus-runtime/Launcher.h"

#include <span>

namespace optrt {

/// One process's view of a job. With the `local` back-end a process runs every
/// rank as a thread; with `mpi` and `tcp` it runs one. The two parts may come
/// from different back-ends; everything above them is written once. Who only
/// agrees takes a ControlPlane.
struct World {
  std::unique_ptr<ControlPlane> control;
  std::unique_ptr<Collectives> collectives; ///< last: it may use the other

  /// Lays the ranks out on a mesh and makes a group of each of its axes, in
  /// their order. Collective; the outcome is the same in every process.
  Status layOut(const optimus_support::Mesh &mesh);
};

/// All ranks as threads of this process.
World createLocalWorld();

/// One rank a process, over MPI: opens the plugin liboptimus_ccl_mpi.so in
/// `../lib/optimus` beside the executable, or the file in
/// $OPTIMUS_CCL_MPI_LIBRARY. A process has the rank at its place in `order`, or
/// MPI's, where that is of another length.
StatusOr<World> createMpiWorld(std::span<const int> order = {});

/// Where and as what a process joins a job over TCP.
struct TcpJob {
  int rank = 0, size = 1;
  std::string startedBy; ///< for messages: "srun"
  /// Tells the job from others that meet at the same place; may be empty.
  std::string job;
  /// Of the program, "optimus-run 0.1": all ranks run the same.
  std::string version;
  MeetingPoint meetingPoint; ///< of no meaning for a job of one rank
  /// Whether all ranks are known to run on this host.
  bool isOneHost = false;
  /// A secret shared by the ranks of this job, of any length. If it is empty,
  /// they know each other by the job's name alone, enough for jobs within this
  /// host.
  std::string secret;
  /// The IPv4 address of this host at which this process listens; empty: the
  /// loopback device's where the job stays on this host, else all.
  std::string bind;
  /// Where it is asked first where they meet; Launcher::pmiSocket.
  std::optional<int> pmiSocket;
  /// How long the others may take to come, and 0: for ever.
  double timeoutSeconds = 0;
  /// As in WatchOptions: from the start, a process that dies ends the job.
  std::function<void(const Status &status, bool speaks)> onStall;
};

/// What a launcher says of it; it knows the size and the rank.
TcpJob tcpJobOf(const Launcher &launcher);

/// InvalidArgument where a mesh has another number of ranks than the job.
Status checkFits(const TcpJob &job, const optimus_support::Mesh &mesh);

/// A secret that nobody knows yet.
std::string makeJobSecret();

/// Whether ranks need no other device than the loopback one: they run on this
/// host, or meet at one of its loopback addresses.
bool staysOnThisHost(const TcpJob &job);

/// One rank a process, over plain TCP. Returns when all ranks are there.
///
/// Errors: InvalidArgument and Unavailable, naming the ranks; rank 0 has each,
/// and `isSaidElsewhere` becomes true where it is known to.
StatusOr<World> createTcpWorld(TcpJob job, bool &isSaidElsewhere);

/// Between GPUs, one a rank, over NCCL, which is opened when groups are made:
/// the collectives of a world whose control plane is another's.
std::unique_ptr<Collectives> createNcclCollectives();

/// What a back-end plugin exports as `optimus_ccl_create`: makes the parts of a
/// World that it has, or returns false and writes why into `error`.
using CreateWorldFn = bool(World &world, std::span<const int> order,
                           char *error, std::size_t errorSize);

/// True when this process was started by Open MPI's mpirun.
bool startedByMpirun();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_WORLD_H
