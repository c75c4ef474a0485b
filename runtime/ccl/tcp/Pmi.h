//===- Pmi.h - Asks MPICH's mpiexec where ranks meet ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_PMI_H
#define OPTIMUS_RUNTIME_CCL_TCP_PMI_H

#include "../peers/Socket.h"
#include "optimus-runtime/Launcher.h"

#include <string>

namespace optrt {

/// What all ranks of a job get to know.
struct PmiAnswer {
  std::string job;   ///< its name
  std::string hosts; ///< what rank 0 said
};

/// Speaks version 1.1 of PMI, in lines of text, with the proxy that Hydra, the
/// mpiexec of MPICH and of Intel MPI, has on each host: rank 0 says on which
/// hosts it is found. Collective; once a process.
///
/// Errors: Unavailable when the proxy says something else or nothing in time.
StatusOr<PmiAnswer> askPmi(Socket proxy, int rank, const std::string &hosts,
                           Deadline deadline);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_PMI_H
