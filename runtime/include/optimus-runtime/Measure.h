//===- Measure.h - How long a device takes ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_H
#define OPTIMUS_RUNTIME_MEASURE_H

#include "optimus-runtime/Device.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace optrt {

/// Fills memory of a device with numbers of moderate size, as f32, bf16 and f16
/// all alike: a GPU needs less power for zeros and is faster.
inline Status fillWithNumbers(Device &device, void *to, int64_t bytes) {
  static const std::vector<uint16_t> values = [] {
    std::vector<uint16_t> list(1 << 15);
    for (std::size_t i = 0; i != list.size(); ++i)
      list[i] = uint16_t(0x3e80 + i * 37 % 256);
    return list;
  }();
  auto *start = static_cast<char *>(to);
  int64_t done =
      std::min(bytes, int64_t(values.size() * sizeof(values.front())));
  OPTRT_RETURN_IF_ERROR(device.write(kCompute, start, values.data(), done));
  while (done < bytes) {
    const int64_t next = std::min(done, bytes - done);
    OPTRT_RETURN_IF_ERROR(
        device.copy(kCompute, {1, next, next, next, 1}, start, start + done));
    done += next;
  }
  return okStatus();
}

/// The median time of a command on the queue for computation, in seconds by the
/// device, over so many calls after a first one, which may find things out. The
/// queues are empty afterwards.
inline StatusOr<double> medianSeconds(Device &device, int calls,
                                      const std::function<Status()> &command) {
  std::vector<CommandTimes> times(static_cast<std::size_t>(calls));
  auto put = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(command());
    for (CommandTimes &one : times) {
      OPTRT_RETURN_IF_ERROR(device.timestamp(kCompute, one.begin));
      OPTRT_RETURN_IF_ERROR(command());
      OPTRT_RETURN_IF_ERROR(device.timestamp(kCompute, one.end));
    }
    return okStatus();
  };
  Status status = put();
  // Also after a failure: until then times are written.
  Status ended = device.synchronize();
  OPTRT_RETURN_IF_ERROR(status);
  OPTRT_RETURN_IF_ERROR(ended);
  auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end(), [](auto &a, auto &b) {
    return a.end - a.begin < b.end - b.begin;
  });
  return std::max(static_cast<double>(middle->end - middle->begin) / 1e9, 1e-9);
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_H
