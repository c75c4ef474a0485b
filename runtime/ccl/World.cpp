//===- World.cpp - A job's control plane and collectives ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/World.h"

#include "base/Plugin.h"

#include <cstdlib>

namespace optrt {

Status World::layOut(const optimus_support::Mesh &mesh) {
  OPTRT_RETURN_IF_ERROR(control->agree(control->layOut(mesh)));
  std::vector<Collectives::Axes> groups;
  for (int axis = 0; axis != mesh.numAxes(); ++axis)
    groups.push_back({axis});
  return control->agree(collectives->createGroups(*control, mesh, groups));
}

World createLocalWorld() {
  return {createLocalControl(), createLocalCollectives()};
}

bool startedByMpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

// Open MPI opens parts of itself that look for its symbols.
static constexpr Plugin kMpi = {
    "the MPI back-end",
    "liboptimus_ccl_mpi.so",
    "OPTIMUS_CCL_MPI_LIBRARY",
    "optimus_ccl_create",
    "build with OPTIMUS_ENABLE_MPI=ON on a machine with Open MPI, or use "
    "--backend local",
    /*global=*/true};

StatusOr<World> createMpiWorld(std::span<const int> order) {
  OPTRT_ASSIGN_OR_RETURN(void *entry, openPlugin(kMpi));
  char error[512] = "";
  World world;
  if (!reinterpret_cast<CreateWorldFn *>(entry)(world, order, error,
                                                sizeof(error)))
    return unavailable("cannot start the MPI back-end: " + std::string(error));
  return world;
}

} // namespace optrt
