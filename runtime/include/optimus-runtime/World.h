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

namespace optrt {

/// One process's view of a job. With the `local` back-end a process runs every
/// rank as a thread; with `mpi` it runs one. The two parts may come from
/// different back-ends; everything above them is written once. Who only agrees
/// takes a ControlPlane.
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
/// `../lib` beside the executable, or the file in $OPTIMUS_CCL_MPI_LIBRARY.
StatusOr<World> createMpiWorld();

/// What a back-end plugin exports as `optimus_ccl_create`: makes the parts of a
/// World that it has, or returns false and writes why into `error`.
using CreateWorldFn = bool(World &world, char *error, std::size_t errorSize);

/// True when this process was started by mpirun.
bool startedByMpirun();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_WORLD_H
