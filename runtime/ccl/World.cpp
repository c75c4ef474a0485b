//===- World.cpp - What back-ends have in common --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/World.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>

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

StatusOr<std::unique_ptr<World>> createMpiWorld() {
  std::string path;
  if (const char *chosen = std::getenv("OPTIMUS_CCL_MPI_LIBRARY")) {
    path = chosen;
  } else {
    std::error_code error;
    std::filesystem::path executable =
        std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
      return unavailable("cannot find the folder of this program to look for "
                         "the MPI back-end: " +
                         error.message());
    path = (executable.parent_path() / "../lib/liboptimus_ccl_mpi.so")
               .lexically_normal();
  }
  // RTLD_GLOBAL: Open MPI opens parts of itself that look for its symbols.
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return unavailable(concat("cannot open the MPI back-end: ", dlerror(),
                              "; build with OPTIMUS_ENABLE_MPI=ON on a machine "
                              "with Open MPI, or use --backend local"));
  auto create =
      reinterpret_cast<CreateWorldFn>(dlsym(handle, "optimus_ccl_create"));
  if (!create)
    return unavailable(path + " is no back-end: it has no symbol "
                              "optimus_ccl_create");
  char error[512] = "";
  World *world = create(error, sizeof(error));
  if (!world)
    return unavailable("cannot start the MPI back-end: " + std::string(error));
  return std::unique_ptr<World>(world);
}

} // namespace optrt
