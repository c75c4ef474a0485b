//===- Driver.cpp - CUDA's driver, opened on demand -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include "optimus-support/DynamicLibrary.h"

using optimus_support::DynamicLibrary;

namespace optrt::cuda {

Status Driver::load() {
  OPTRT_ASSIGN_OR_RETURN(
      const DynamicLibrary library,
      DynamicLibrary::open(
          {"CUDA's driver",
           "OPTIMUS_CUDA_DRIVER_LIBRARY",
           {"libcuda.so.1"},
           "the machine needs an NVIDIA GPU and its driver, of CUDA 12 or "
           "later"}));
#define OPTRT_CUDA_LOAD(name, symbol, parameters)                              \
  OPTRT_RETURN_IF_ERROR(library.find(#symbol, functions.name));
  OPTRT_CUDA_FUNCTIONS(OPTRT_CUDA_LOAD)
#undef OPTRT_CUDA_LOAD
#define OPTRT_CUDA_LOAD(name, symbol, parameters)                              \
  (void)library.find(#symbol, functions.name);
  OPTRT_CUDA_LATER_FUNCTIONS(OPTRT_CUDA_LOAD)
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
