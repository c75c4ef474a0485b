//===- Driver.cpp - CUDA's driver, opened on demand -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <cstdlib>
#include <dlfcn.h>

namespace optrt::cuda {

StatusOr<void *> openLibrary(const char *what, const char *variable,
                             std::span<const char *const> files,
                             const char *remedy) {
  const char *chosen = std::getenv(variable);
  if (chosen)
    files = {&chosen, 1};
  std::string problems;
  for (const char *file : files) {
    if (void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL))
      return library;
    problems += concat(problems.empty() ? "" : "; ", dlerror());
  }
  return unavailable(
      concat("cannot open ", what, ": ", problems, "; ", remedy));
}

StatusOr<void *> findSymbol(void *library, const char *what, const char *name) {
  if (void *symbol = dlsym(library, name))
    return symbol;
  return unavailable(concat(what, " has no function ", name,
                            ": expected one of CUDA 12 or later"));
}

static constexpr const char *kWhat = "CUDA's driver";

Status Driver::load() {
  static constexpr const char *files[] = {"libcuda.so.1"};
  OPTRT_ASSIGN_OR_RETURN(
      void *library,
      openLibrary(kWhat, "OPTIMUS_CUDA_DRIVER_LIBRARY", files,
                  "the machine needs an NVIDIA GPU and its driver"));
#define OPTRT_CUDA_LOAD(name, symbol, parameters)                              \
  {                                                                            \
    OPTRT_ASSIGN_OR_RETURN(void *found, findSymbol(library, kWhat, #symbol));  \
    functions.name = reinterpret_cast<Result(*) parameters>(found);            \
  }
  OPTRT_CUDA_FUNCTIONS(OPTRT_CUDA_LOAD)
#undef OPTRT_CUDA_LOAD
  if (Result result = functions.init(0); result != kSuccess)
    return unavailable(
        concat("CUDA's driver does not start: ", describe(result)));
  return okStatus();
}

StatusOr<const Driver *> Driver::open() {
  static Driver driver;
  static const Status loaded = driver.load();
  OPTRT_RETURN_IF_ERROR(loaded);
  return &driver;
}

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (functions.getErrorName(result, &name) != kSuccess || !name)
    return concat("error ", result);
  if (functions.getErrorString(result, &text) != kSuccess || !text)
    return name;
  return concat(name, " (", text, ")");
}

Status Driver::check(Result result, const char *call) const {
  if (result == kSuccess)
    return okStatus();
  std::string message = concat(call, ": ", describe(result));
  switch (result) {
  case kOutOfMemory:
    return unavailable(std::move(message));
  case kEccUncorrectable:
  case kNvlinkUncorrectable:
    return unavailable(std::move(message))
        .withAdvice(
            "the GPU is at fault, not the program: see `nvidia-smi -q`, "
            "and use another one");
  default:
    return internal(std::move(message));
  }
}

} // namespace optrt::cuda
