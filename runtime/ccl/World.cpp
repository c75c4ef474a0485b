//===- World.cpp - What back-ends have in common --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/World.h"

#include "core/Plugin.h"

#include <cstdlib>

namespace optrt {

bool startedByMpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

Status World::agree(Status own) {
  std::string text;
  if (!own.ok())
    text = std::to_string(static_cast<int>(own.code())) + " " + own.message();
  for (const std::string &other : allGather(text)) {
    if (other.empty())
      continue;
    std::size_t space = other.find(' ');
    return Status(static_cast<StatusCode>(std::stoi(other.substr(0, space))),
                  other.substr(space + 1));
  }
  return okStatus();
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

StatusOr<std::unique_ptr<World>> createMpiWorld() {
  OPTRT_ASSIGN_OR_RETURN(void *entry, openPlugin(kMpi));
  char error[512] = "";
  World *world = reinterpret_cast<CreateWorldFn>(entry)(error, sizeof(error));
  if (!world)
    return unavailable("cannot start the MPI back-end: " + std::string(error));
  return std::unique_ptr<World>(world);
}

} // namespace optrt
