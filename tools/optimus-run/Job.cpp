//===- Job.cpp - How this process joins the others ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Job.h"

#include "Commands.h"
#include "optimus-support/TemporaryPath.h"

#include <cstdio>
#include <cstdlib>

using namespace optrt;

namespace optimus_run {

StatusOr<Launcher> findLauncherOf(const JobOptions &options) {
  const std::string rank = options.rank ? concat(*options.rank) : "";
  const std::string ranks = options.ranks ? concat(*options.ranks) : "";
  return findLauncher([&](std::string_view name) -> const char * {
    for (const auto &[variable, given] :
         {std::pair("OPTIMUS_RANK", &rank),
          {"OPTIMUS_RANKS", &ranks},
          {"OPTIMUS_RENDEZVOUS", &options.rendezvous}})
      if (name == variable && !given->empty())
        return given->c_str();
    return std::getenv(std::string(name).c_str());
  });
}

/// What MPI found is what the launcher started.
static Status checkSize(const World &world, const Launcher &launcher) {
  int size = world.control->size(), rank = world.control->firstRank();
  if (launcher.size ? *launcher.size == size
                    : launcher.rank.value_or(0) == rank)
    return okStatus();
  return invalidArgument(concat(
      launcher.toString(),
      launcher.size ? "" : concat(" as rank ", *launcher.rank),
      ", but MPI knows of ", size,
      "; use the mpirun of the MPI library that this program was built with, "
      "or --backend tcp"));
}

StatusOr<World> joinJob(const JobOptions &options, const Launcher &launcher,
                        double timeoutSeconds, bool &speaks) {
  speaks = launcher.isFirst();
  if (options.backend == "nccl") {
    // Who the ranks are and whether they live is not its business.
    JobOptions found = options;
    found.backend.clear();
    OPTRT_ASSIGN_OR_RETURN(World world,
                           joinJob(found, launcher, timeoutSeconds, speaks));
    world.collectives = createNcclCollectives();
    return world;
  }
  OPTRT_ASSIGN_OR_RETURN(std::string backend,
                         chooseBackend(launcher, options.backend));
  if (backend == "local")
    return createLocalWorld();
  if (backend == "mpi") {
    StatusOr<World> world = createMpiWorld();
    Status fits = world.ok() ? checkSize(*world, launcher) : world.status();
    // MPICH's mpiexec tells where they meet, whichever MPI this is, if any.
    const bool meetsAnyway = options.backend.empty() && launcher.pmiSocket &&
                             (!world.ok() || world->control->size() == 1);
    if (fits.ok())
      return world;
    if (!meetsAnyway)
      return fits;
    if (speaks)
      std::fprintf(stderr,
                   "optimus-run: warning: %s, which the MPI library that this "
                   "program was built with does not find: tensors move over "
                   "TCP (--backend tcp)\n",
                   launcher.toString().c_str());
  }
  TcpJob job = tcpJobOf(launcher);
  job.version = "optimus-run " OPTIMUS_VERSION;
  job.timeoutSeconds = timeoutSeconds;
  job.onStall = reportEnd;
  bool isSaidElsewhere = false;
  StatusOr<World> world = createTcpWorld(std::move(job), isSaidElsewhere);
  speaks = launcher.isFirst() || !isSaidElsewhere;
  return world;
}

void reportEnd(const Status &status, bool speaks) {
  if (speaks)
    printFailure(status);
  optimus_support::removeTemporaries();
}

} // namespace optimus_run
