//===- Driver.h - CUDA's driver, opened on demand ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_DRIVER_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "DriverApi.h"

#include "optimus-runtime/Status.h"

#include <string>

namespace optrt::cuda {

/// CUDA's driver: libcuda.so.1, or the file in $OPTIMUS_CUDA_DRIVER_LIBRARY.
class Driver {
public:
  /// Opened and initialised once for a process.
  static StatusOr<const Driver *> open();

  const DriverApi &api() const { return functions; }

  /// Fine for success; else the driver's message about a failed call, named as
  /// the driver does: Unavailable where memory ran out or the GPU itself is
  /// broken, Internal else.
  Status check(Result result, const char *call) const;
  /// "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)".
  std::string describe(Result result) const;

private:
  Status load();

  DriverApi functions = {};
};

/// Returns from the function unless a call of the driver succeeds:
/// OPTRT_CUDA(driver, memFree, address).
#define OPTRT_CUDA(driver, call, ...)                                          \
  OPTRT_RETURN_IF_ERROR(                                                       \
      (driver).check((driver).api().call(__VA_ARGS__), kDriverNames.call))

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_DRIVER_H
