//===- Launcher.cpp - Who started this process ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Launcher.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace optrt {
namespace {

/// A variable's value if it is a number of processes, or of one.
std::optional<int> numberOf(const Variables &variables, const char *name) {
  const char *text = name ? variables(name) : nullptr;
  int value = 0;
  if (!text)
    return std::nullopt;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0)
    return std::nullopt;
  return value;
}

struct OtherLauncher {
  const char *name;
  const char *size; ///< null: it does not say
  const char *rank;
};

// Where one sets another's variables too, the one that says more comes first.
constexpr OtherLauncher kOthers[] = {
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID"},
    {"MVAPICH2's mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"an mpiexec of MPICH or Intel MPI", "PMI_SIZE", "PMI_RANK"},
    {"torchrun", "WORLD_SIZE", "RANK"},
    {"a launcher that speaks PMIx", nullptr, "PMIX_RANK"},
};

} // namespace

StatusOr<Launcher> findLauncher(const Variables &variables) {
  Launcher launcher;
  if (variables("OMPI_COMM_WORLD_SIZE")) {
    launcher.kind = Launcher::Kind::OpenMpi;
    launcher.name = "mpirun";
    launcher.size = numberOf(variables, "OMPI_COMM_WORLD_SIZE");
    launcher.rank = numberOf(variables, "OMPI_COMM_WORLD_RANK");
    if (!launcher.size || !launcher.rank || *launcher.rank >= *launcher.size)
      return invalidArgument(
          "the variables OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK say that "
          "mpirun started this process, but not as which of how many; start it "
          "with mpirun, or unset them");
    return launcher;
  }
  for (const OtherLauncher &other : kOthers) {
    bool isSlurm = std::strcmp(other.name, "srun") == 0;
    // A batch script has an allocation's variables, but is no step of it: the
    // numbers of those that are none lie near the largest of 32 bits.
    std::optional<int> step = numberOf(variables, "SLURM_STEP_ID");
    if (isSlurm && !step)
      continue;
    std::optional<int> rank = numberOf(variables, other.rank);
    std::optional<int> size = numberOf(variables, other.size);
    if (!rank || (other.size && !size))
      continue;
    // Another's variables may be there without a meaning.
    if (size == 1)
      return launcher;
    launcher.kind = Launcher::Kind::Other;
    launcher.name = other.name;
    launcher.size = size;
    launcher.rank = rank;
    return launcher;
  }
  return launcher;
}

StatusOr<Launcher> findLauncher() {
  return findLauncher([](const char *name) { return std::getenv(name); });
}

Status checkLauncher(const Launcher &launcher) {
  if (launcher.kind != Launcher::Kind::Other)
    return okStatus();
  std::string count = launcher.size ? concat(*launcher.size) : "N";
  return invalidArgument(concat(
      launcher.name, " started ",
      launcher.size ? concat(count, " processes") : std::string("this process"),
      ", and optimus-run finds the others only under Open MPI's mpirun: each "
      "would do the whole job by itself; use `mpirun -n ",
      count,
      " optimus-run ...`, or --backend local for ranks as threads of this one "
      "process (--backend mpi where Open MPI was built for that launcher)"));
}

} // namespace optrt
