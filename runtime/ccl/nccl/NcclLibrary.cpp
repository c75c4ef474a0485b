//===- NcclLibrary.cpp - NCCL, opened on demand ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NcclLibrary.h"

#include <cstdlib>
#include <dlfcn.h>

namespace optrt::nccl {

static constexpr const char *kRemedy =
    "install NCCL 2.18 or later (`scripts/setup --cuda=full` brings one, and "
    "so "
    "does PyTorch) and name it in OPTIMUS_NCCL_LIBRARY, or use another "
    "--backend";

Status NcclLibrary::load() {
  const char *chosen = std::getenv("OPTIMUS_NCCL_LIBRARY");
  const char *file = chosen ? chosen : "libnccl.so.2";
  // Kernels of several communicators of a GPU begin in the same order on all
  // ranks, so that none waits for another in a ring.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return unavailable(concat("cannot open NCCL: ", dlerror(), "; ", kRemedy));
  auto find = [&](const char *symbol, auto &function) -> Status {
    void *found = dlsym(library, symbol);
    if (!found)
      return unavailable(
          concat("NCCL in ", file, " has no ", symbol, "; ", kRemedy));
    function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
    return okStatus();
  };
#define OPTRT_NCCL_LOAD(name, symbol, parameters)                              \
  OPTRT_RETURN_IF_ERROR(find(#symbol, functions.name));
  OPTRT_NCCL_FUNCTIONS(OPTRT_NCCL_LOAD)
  OPTRT_NCCL_TEXTS(OPTRT_NCCL_LOAD)
#undef OPTRT_NCCL_LOAD
  int version = 0;
  OPTRT_RETURN_IF_ERROR(
      check(functions.getVersion(&version), "ncclGetVersion", nullptr));
  if (version < int(Config().version))
    return unavailable(concat("NCCL in ", file, " is ", version / 10000, ".",
                              version / 100 % 100, "; ", kRemedy));
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
