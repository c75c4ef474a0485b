//===- Mpi.h - MPI's errors as ours -----------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_MPI_H
#define OPTIMUS_RUNTIME_CCL_MPI_MPI_H

#include "optimus-runtime/Status.h"

#include <cstdio>
#include <mpi.h>
#include <string_view>

namespace optrt {

/// "rank 2: MPI_Isend failed: MPI_ERR_RANK: invalid rank". The caller adds the
/// command.
inline Status mpiError(const char *call, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0, initialized = 0, rank = -1;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS || length == 0)
    length = std::snprintf(text, sizeof(text), "code %d", code);
  if (MPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
      MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS)
    rank = -1;
  return internal(concat(rank < 0 ? "" : concat("rank ", rank, ": "), call,
                         " failed: ", std::string_view(text, length)));
}

/// For what cannot be returned: where things are taken down.
inline void warnOfMpi(const char *call, int code) {
  if (code != MPI_SUCCESS)
    std::fprintf(stderr, "optimus-run: warning: %s\n",
                 mpiError(call, code).message().c_str());
}

} // namespace optrt

/// Every call of MPI is made through this: what it returns is never dropped.
#define OPTIMUS_MPI_CHECK(call, ...)                                           \
  do {                                                                         \
    if (int code = call(__VA_ARGS__); code != MPI_SUCCESS)                     \
      return ::optrt::mpiError(#call, code);                                   \
  } while (false)

#endif // OPTIMUS_RUNTIME_CCL_MPI_MPI_H
