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

#include <mpi.h>

namespace optrt {

inline Status mpiError(const char *call, int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return internal(std::string(call) + " failed: " + std::string(text, length));
}

} // namespace optrt

#define OPTIMUS_MPI_CHECK(call, ...)                                           \
  do {                                                                         \
    if (int code = call(__VA_ARGS__); code != MPI_SUCCESS)                     \
      return ::optrt::mpiError(#call, code);                                   \
  } while (false)

#endif // OPTIMUS_RUNTIME_CCL_MPI_MPI_H
