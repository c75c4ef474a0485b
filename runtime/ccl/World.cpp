//===- World.cpp - What back-ends have in common --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/World.h"

#include "core/Plugin.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sched.h>
#include <thread>

namespace optrt {

bool startedByMpirun() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

int usableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return CPU_COUNT(&set);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::string_view collectiveName(int32_t kind) {
  switch (kind) {
  case OPTRT_BROADCAST:
    return "broadcast";
  case OPTRT_REDUCE:
    return "reduce";
  case OPTRT_ALL_REDUCE:
    return "all_reduce";
  case OPTRT_ALL_GATHER:
    return "all_gather";
  case OPTRT_REDUCE_SCATTER:
    return "reduce_scatter";
  }
  return "unknown";
}

Status Communicator::tooManyInFlight(uint32_t id) {
  return internal(concat("command ", id, " starts a collective while ",
                         kMaxInFlight,
                         " others on its axis are not waited for"));
}

Status Communicator::notStarted(uint32_t id) {
  return internal(concat("command ", id, " is waited for but was not started"));
}

std::string World::encode(const Status &status) {
  return status.ok()
             ? std::string()
             : concat(static_cast<int>(status.code()), " ", status.message());
}

Status World::decode(std::string_view text) {
  if (text.empty())
    return okStatus();
  int code = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, code);
  if (error != std::errc() || stop == end || *stop != ' ' ||
      code <= static_cast<int>(StatusCode::Ok) ||
      code > static_cast<int>(StatusCode::Internal))
    return internal(
        concat("a rank said what the others do not understand: ", text));
  return Status(static_cast<StatusCode>(code), std::string(stop + 1, end));
}

Status World::agree(Status own) {
  for (const std::string &text : allGather(encode(own)))
    OPTRT_RETURN_IF_ERROR(decode(text));
  return okStatus();
}

Status World::checkSame(std::span<const Setting> settings) {
  std::string own;
  for (const Setting &setting : settings)
    own += setting.value + '\n';
  std::vector<std::string> all = allGather(own);
  auto linesOf = [](const std::string &text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line);
    return lines;
  };
  std::vector<std::string> expected = linesOf(all[0]);
  for (std::size_t rank = 1; rank != all.size(); ++rank) {
    std::vector<std::string> found = linesOf(all[rank]);
    for (std::size_t i = 0; i != settings.size(); ++i)
      if (i >= found.size() || i >= expected.size() || found[i] != expected[i])
        return invalidArgument(
            concat("rank ", rank, " and rank 0 disagree on ", settings[i].name,
                   ": ", i < found.size() ? found[i] : "nothing", " on rank ",
                   rank, ", ", i < expected.size() ? expected[i] : "nothing",
                   " on rank 0; start all ranks with the same options and "
                   "files"));
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
