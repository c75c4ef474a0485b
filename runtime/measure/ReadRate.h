//===- ReadRate.h - How fast threads read memory ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_READRATE_H
#define OPTIMUS_RUNTIME_MEASURE_READRATE_H

#include "optimus-runtime/Device.h"

#include <memory>

namespace optrt {

/// Times a plain sum by the threads of a processor: the rate of a program with
/// nothing to do but to read its weights once.
class ReadRate {
public:
  /// Of so many bytes, rounded up. Unavailable where memory is short.
  static StatusOr<ReadRate> create(int threads, int64_t bytes);

  /// One pass, in bytes a second.
  StatusOr<double> measure();

private:
  std::unique_ptr<Device> device;
  int64_t blocks = 0;
  DeviceMemory memory; ///< behind the elements, a sum for each block
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_READRATE_H
