//===- Job.cpp - How this process joins the others ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Job.h"

#include "Placement.h"

#include "optimus-support/InputFile.h"

#include <cstdlib>
#include <sys/stat.h>

namespace optrt {

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

/// Checks that MPI found the ranks started by the launcher.
static Status checkSize(const World &world, const Launcher &launcher,
                        const std::vector<int> &order) {
  const int size = world.control->size();
  int rank = launcher.rank.value_or(0);
  if (int(order.size()) == size && rank < size)
    rank = order[rank];
  if (launcher.size ? *launcher.size == size
                    : rank == world.control->firstRank())
    return okStatus();
  return invalidArgument(concat(
      launcher.toString(),
      launcher.size ? "" : concat(" as rank ", *launcher.rank),
      ", but MPI knows of ", size,
      "; use the mpirun of the MPI library that this program was built with, "
      "or --backend tcp"));
}

/// What the user gives as the job's secret; empty for nothing.
static StatusOr<std::string> givenSecret(const JobOptions &options) {
  constexpr std::size_t kMostBytes = 4096;
  if (options.secretFile.empty()) {
    const char *variable = std::getenv("OPTIMUS_JOB_SECRET");
    if (variable && !*variable)
      return invalidArgument("OPTIMUS_JOB_SECRET is set and empty; expected a "
                             "text that only the ranks of this job know, or no "
                             "such variable");
    return std::string(variable ? variable : "");
  }
  StatusOr<std::string> read =
      optimus_support::readInput(options.secretFile, kMostBytes);
  if (!read.ok())
    return read.status().withContext("--secret-file");
  std::string secret = *std::move(read);
  struct stat file {};
  if (stat(options.secretFile.c_str(), &file) == 0 && S_ISREG(file.st_mode) &&
      (file.st_mode & (S_IRWXG | S_IRWXO)))
    return invalidArgument(concat("--secret-file `", options.secretFile,
                                  "` is open to other users; chmod 600 it"));
  // An editor's line end is none of it.
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.empty())
    return invalidArgument(concat("--secret-file `", options.secretFile,
                                  "` is empty; expected a text that only the "
                                  "ranks of this job know"));
  return secret;
}

/// By what ranks know each other: what is given; on this host alone nothing is
/// needed, and MPICH's mpiexec hands out what rank 0 makes.
static StatusOr<std::string> chooseSecret(const JobOptions &options,
                                          const JobProgram &program,
                                          const Launcher &launcher,
                                          const TcpJob &job, bool &speaks) {
  StatusOr<std::string> given = givenSecret(options);
  if (!given.ok()) {
    // Rank 0 may have a good one: without this it would say in vain that this
    // rank did not come.
    speaks = true;
    return job.rank == 0
               ? given.status()
               : given.status().withContext(concat("rank ", job.rank));
  }
  std::string secret = *std::move(given);
  if (!secret.empty() || staysOnThisHost(job) || launcher.pmiSocket)
    return secret;
  const std::string where =
      concat(job.meetingPoint.host, ":", job.meetingPoint.port);
  if (!launcher.isByHand())
    return invalidArgument(concat(
        launcher.toString(), ", which meet at ", where,
        ", beyond this host, and share no secret: whoever reaches that port "
        "could join; set OPTIMUS_JOB_SECRET before ",
        launcher.name,
        " starts them, as `export OPTIMUS_JOB_SECRET=$(openssl rand -hex 32)`, "
        "or give --secret-file FILE"));
  if (job.rank != 0) {
    speaks = true;
    return invalidArgument(
        concat("rank ", job.rank, " meets rank 0 at ", where,
               ", beyond this host, and has no secret of the job; give it what "
               "rank 0 prints, or all ranks one of your own, as "
               "OPTIMUS_JOB_SECRET or --secret-file FILE"));
  }
  secret = makeJobSecret();
  program.tell(
      concat("the ranks of this job know each other by a secret: start "
             "the others with OPTIMUS_JOB_SECRET=",
             secret));
  return secret;
}

StatusOr<World> joinJob(const JobOptions &options, const JobProgram &program,
                        const Launcher &launcher,
                        const std::optional<LibraryFile> &library,
                        double timeoutSeconds, bool &speaks) {
  // Ranks by hand are started apart, each perhaps where nobody sees the first.
  speaks = launcher.isFirst() || launcher.isByHand();
  if (options.backend == "nccl") {
    // Who the ranks are and whether they live is not its business.
    JobOptions found = options;
    found.backend.clear();
    OPTRT_ASSIGN_OR_RETURN(
        World world,
        joinJob(found, program, launcher, library, timeoutSeconds, speaks));
    world.collectives = createNcclCollectives();
    return world;
  }
  OPTRT_ASSIGN_OR_RETURN(std::string backend,
                         chooseBackend(launcher, options.backend));
  for (const auto &[flag, value] :
       {std::pair("--secret-file", &options.secretFile),
        {"--bind", &options.bind}})
    if (backend != "tcp" && !value->empty())
      return invalidArgument(
          concat(flag, " is for ranks that meet over TCP, and these are ",
                 backend == "mpi" ? "MPI's" : "threads of one process",
                 "; leave it out, or use --backend tcp"));
  if (backend == "local")
    return createLocalWorld();
  // What is wrong with it is said where it is opened to be run.
  const StatusOr<Manifest> manifest =
      library ? library->readManifest() : internal("there is no library");
  // Who gives ranks by hand has decided where each is.
  std::vector<int> order;
  if (manifest.ok() && !launcher.isByHand())
    order = orderRanks(manifest->nodes);
  if (backend == "mpi") {
    StatusOr<World> world = createMpiWorld(order);
    Status fits =
        world.ok() ? checkSize(*world, launcher, order) : world.status();
    // MPICH's mpiexec tells where they meet, whichever MPI this is, if any.
    const bool meetsAnyway = options.backend.empty() && launcher.pmiSocket &&
                             (!world.ok() || world->control->size() == 1);
    if (fits.ok())
      return world;
    if (!meetsAnyway)
      return fits;
    if (speaks)
      program.tell(concat("warning: ", launcher.toString(),
                          ", unknown to the MPI library of this program: "
                          "tensors move over TCP (--backend tcp)"));
  }
  TcpJob job = tcpJobOf(launcher);
  job.version = program.version;
  job.timeoutSeconds = timeoutSeconds;
  job.onStall = program.onEnd;
  job.bind = options.bind;
  if (manifest.ok())
    OPTRT_RETURN_IF_ERROR(checkFits(job, manifest->mesh));
  if (!order.empty())
    job.rank = order[job.rank];
  OPTRT_ASSIGN_OR_RETURN(job.secret,
                         chooseSecret(options, program, launcher, job, speaks));
  bool isSaidElsewhere = false;
  StatusOr<World> world = createTcpWorld(std::move(job), isSaidElsewhere);
  speaks = launcher.isFirst() || !isSaidElsewhere;
  return world;
}

} // namespace optrt
