//===- Plugin.cpp - One rank a process, over MPI --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plugin: only this shared object links MPI.
//
//===----------------------------------------------------------------------===//

#include "MpiProcess.h"
#include "optimus-runtime/World.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace optrt {
namespace {

/// Why the variables that the user may set make no sense, or nothing.
std::string wrongVariable() {
  auto check = [](const char *name, const char *one, const char *other) {
    const char *value = std::getenv(name);
    return !value || std::strcmp(value, one) == 0 ||
                   std::strcmp(value, other) == 0
               ? std::string()
               : concat(name, " is `", value, "`, expected ", one, " or ",
                        other);
  };
  std::string wrong = check("OPTIMUS_MPI_BROADCAST", "chain", "library");
  return wrong.empty() ? check("OPTIMUS_PROGRESS_THREAD", "0", "1") : wrong;
}

std::string noticeOf(int provided) {
  const char *choice = std::getenv("OPTIMUS_PROGRESS_THREAD");
  if (choice && std::strcmp(choice, "0") == 0)
    return "OPTIMUS_PROGRESS_THREAD=0: communication moves only while a rank "
           "starts or waits for it, and hides little behind computing";
  if (provided < MPI_THREAD_SERIALIZED)
    return "this MPI takes no calls from a second thread "
           "(MPI_THREAD_SERIALIZED): communication moves only while a rank "
           "starts or waits for it, and hides little behind computing";
  return "";
}

} // namespace

StatusOr<int> ranksOfThisHost(MPI_Comm comm) {
  MPI_Comm host;
  int count = 0;
  OPTIMUS_MPI_CHECK(MPI_Comm_split_type, comm, MPI_COMM_TYPE_SHARED, 0,
                    MPI_INFO_NULL, &host);
  OPTIMUS_MPI_CHECK(MPI_Comm_size, host, &count);
  OPTIMUS_MPI_CHECK(MPI_Comm_free, &host);
  return count;
}

StatusOr<std::shared_ptr<MpiProcess>>
MpiProcess::start(std::span<const int> order) {
  int provided = 0, size = 0, rank = 0;
  OPTIMUS_MPI_CHECK(MPI_Init_thread, nullptr, nullptr, MPI_THREAD_SERIALIZED,
                    &provided);
  OPTIMUS_MPI_CHECK(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  OPTIMUS_MPI_CHECK(MPI_Comm_size, MPI_COMM_WORLD, &size);
  OPTIMUS_MPI_CHECK(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
  OPTRT_ASSIGN_OR_RETURN(int here, ranksOfThisHost(MPI_COMM_WORLD));
  MPI_Comm all = MPI_COMM_WORLD;
  if (order.size() == static_cast<std::size_t>(size)) {
    rank = order[rank];
    OPTIMUS_MPI_CHECK(MPI_Comm_split, MPI_COMM_WORLD, /*color=*/0, rank, &all);
  }
  return std::shared_ptr<MpiProcess>(
      new MpiProcess(noticeOf(provided), all, size, rank, here));
}

MpiProcess::MpiProcess(std::string notice, MPI_Comm all, int size, int rank,
                       int ranksOnThisHost)
    : notice(std::move(notice)), all(all), size(size), rank(rank),
      engine(/*sharesNoMemory=*/ranksOnThisHost == 1) {}

MpiProcess::~MpiProcess() { warnOfMpi("MPI_Finalize", MPI_Finalize()); }

} // namespace optrt

extern "C" __attribute__((visibility("default"))) bool
optimus_ccl_create(optrt::World &world, std::span<const int> order, char *error,
                   std::size_t errorSize) {
  if (std::string wrong = optrt::wrongVariable(); !wrong.empty()) {
    std::snprintf(error, errorSize, "%s", wrong.c_str());
    return false;
  }
  // Ranks that share cores must let each other run while they wait.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
  // OpenMPI asks about its sockets with poll() unless told otherwise; what the
  // kernel keeps a list of can wake us (Arrivals.h).
  setenv("OMPI_MCA_opal_event_include", "epoll", /*overwrite=*/0);
  optrt::StatusOr<std::shared_ptr<optrt::MpiProcess>> started =
      optrt::MpiProcess::start(order);
  if (!started.ok()) {
    std::snprintf(error, errorSize, "%s", started.status().message().c_str());
    return false;
  }
  std::shared_ptr<optrt::MpiProcess> process = std::move(started).value();
  world.control = optrt::createMpiControl(process);
  world.collectives = optrt::createMpiCollectives(process);
  return true;
}
