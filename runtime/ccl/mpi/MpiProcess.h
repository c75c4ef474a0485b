//===- MpiProcess.h - This process as a rank of MPI -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_MPIPROCESS_H
#define OPTIMUS_RUNTIME_CCL_MPI_MPIPROCESS_H

#include "ProgressEngine.h"
#include "optimus-runtime/Collectives.h"
#include "optimus-runtime/ControlPlane.h"

#include <memory>
#include <span>
#include <string>

namespace optrt {

/// MPI from its start to its end, which the control plane and the collectives
/// of this process share.
struct MpiProcess {
  /// Starts MPI, as createMpiWorld(). Its errors are returned, and none ends
  /// the process.
  static StatusOr<std::shared_ptr<MpiProcess>>
  start(std::span<const int> order);
  ~MpiProcess();
  MpiProcess(const MpiProcess &) = delete;
  MpiProcess &operator=(const MpiProcess &) = delete;

  /// Why nothing moves while ranks compute, or empty.
  const std::string notice;
  /// All processes, by their ranks.
  const MPI_Comm all;
  const int size, rank;
  /// Its lock is held for every call of MPI.
  ProgressEngine engine;

private:
  MpiProcess(std::string notice, MPI_Comm all, int size, int rank,
             int ranksOnThisHost);
};

/// The ranks of a communicator that run on this machine. Collective.
StatusOr<int> ranksOfThisHost(MPI_Comm comm);

std::unique_ptr<ControlPlane>
createMpiControl(std::shared_ptr<MpiProcess> process);
std::unique_ptr<Collectives>
createMpiCollectives(std::shared_ptr<MpiProcess> process);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_MPIPROCESS_H
