//===- Launcher.h - Who started this process --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_LAUNCHER_H
#define OPTIMUS_RUNTIME_LAUNCHER_H

#include "optimus-runtime/Status.h"

#include <functional>
#include <optional>
#include <string>

namespace optrt {

/// This process's place among those that were started with it, as environment
/// variables tell it before MPI is started.
struct Launcher {
  enum class Kind {
    None,    ///< one process by itself
    OpenMpi, ///< its mpirun: ranks find each other
    Other,   ///< one whose processes cannot find each other yet
  } kind = Kind::None;
  std::string name;        ///< for instance "srun"
  std::optional<int> size; ///< how many it started, where it says so
  std::optional<int> rank; ///< this one's number

  /// Whether this is the process that speaks to the user.
  bool isFirst() const { return rank.value_or(0) == 0; }
};

/// An environment variable's value, or null.
using Variables = std::function<const char *(const char *name)>;

/// Finds out who started this process. A launcher of a single process is none,
/// and neither is an allocation of Slurm's in which no step was started.
///
/// Errors: InvalidArgument when Open MPI's variables make no sense.
StatusOr<Launcher> findLauncher(const Variables &variables);
StatusOr<Launcher> findLauncher();

/// InvalidArgument for a launcher whose processes cannot find each other: each
/// would do the whole job by itself.
Status checkLauncher(const Launcher &launcher);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_LAUNCHER_H
