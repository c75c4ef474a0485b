//===- ReadRate.cpp - How fast threads read memory ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "measure/ReadRate.h"

#include "measure/ComputeLoops.h"
#include "optimus-runtime/Measure.h"

#include <algorithm>
#include <chrono>

namespace optrt {

static constexpr int64_t kBlockBytes = kSumElements * int64_t(sizeof(float));

StatusOr<ReadRate> ReadRate::create(int threads, int64_t bytes) {
  ReadRate made;
  OPTRT_ASSIGN_OR_RETURN(DeviceFactory factory, DeviceFactory::open("cpu"));
  OPTRT_ASSIGN_OR_RETURN(made.device, factory.create(threads));
  made.blocks = std::max<int64_t>(1, (bytes + kBlockBytes - 1) / kBlockBytes);
  const int64_t elements = made.blocks * kBlockBytes;
  OPTRT_ASSIGN_OR_RETURN(
      made.memory,
      made.device->allocate(elements + made.blocks * int64_t(sizeof(float)),
                            "what is summed"));
  OPTRT_RETURN_IF_ERROR(
      fillWithNumbers(*made.device, made.memory.data(), elements));
  OPTRT_RETURN_IF_ERROR(made.measure().status());
  return made;
}

StatusOr<double> ReadRate::measure() {
  void *args[] = {memory.data(), memory.data() + blocks * kBlockBytes};
  const auto begin = std::chrono::steady_clock::now();
  OPTRT_RETURN_IF_ERROR(device->launch(kCompute, {"sum", blocks, 1, 2, 0},
                                       hostKernel("sum", sumLoop), args));
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - begin;
  return static_cast<double>(blocks * kBlockBytes) /
         std::max(time.count(), 1e-9);
}

} // namespace optrt
