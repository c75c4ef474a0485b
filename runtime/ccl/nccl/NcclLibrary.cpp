//===- NcclLibrary.cpp - NCCL, opened on demand ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclLibrary.h"

#include "optimus-support/DynamicLibrary.h"

#include <cstdlib>

using optimus_support::DynamicLibrary;

namespace optrt::nccl {

Status NcclLibrary::load() {
  // Kernels of several communicators of a GPU begin in the same order on all
  // ranks, so that none waits for another in a ring.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  OPTRT_ASSIGN_OR_RETURN(
      const DynamicLibrary library,
      DynamicLibrary::open(
          {"NCCL",
           "OPTIMUS_NCCL_LIBRARY",
           {"libnccl.so.2"},
           "install NCCL 2.18 or later (`scripts/setup --cuda=full` brings "
           "one, and so does PyTorch) and name it in OPTIMUS_NCCL_LIBRARY, or "
           "use another --backend"}));
#define OPTRT_NCCL_LOAD(name, symbol, parameters)                              \
  OPTRT_RETURN_IF_ERROR(library.find(#symbol, functions.name));
  OPTRT_NCCL_FUNCTIONS(OPTRT_NCCL_LOAD)
  OPTRT_NCCL_TEXTS(OPTRT_NCCL_LOAD)
#undef OPTRT_NCCL_LOAD
  int version = 0;
  OPTRT_RETURN_IF_ERROR(
      check(functions.getVersion(&version), "ncclGetVersion", nullptr));
  if (version < int(Config().version))
    return library.refuse(
        concat("is ", version / 10000, ".", version / 100 % 100));
  return okStatus();
}

StatusOr<const NcclLibrary *> NcclLibrary::open() {
  static NcclLibrary library;
  static const Status loaded = library.load();
  OPTRT_RETURN_IF_ERROR(loaded);
  return &library;
}

Status NcclLibrary::check(Result result, const char *call, Comm comm) const {
  if (result == kSuccess)
    return okStatus();
  std::string message =
      concat("NCCL's ", call, ": ", functions.getErrorString(result));
  const char *last = functions.getLastError(comm);
  message +=
      last && *last ? concat(" (", last, ")") : "; NCCL_DEBUG=WARN tells more";
  return result == kInvalidArgument || result == kInvalidUsage
             ? internal(std::move(message))
             : unavailable(std::move(message));
}

} // namespace optrt::nccl
