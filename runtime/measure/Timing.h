//===- Timing.h - Times of what is measured ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_TIMING_H
#define OPTIMUS_RUNTIME_MEASURE_TIMING_H

#include <algorithm>
#include <sys/resource.h>
#include <vector>

namespace optrt {

/// Of an even number of values the larger one in the middle. There is one at
/// least.
template <typename T>
T takeMedian(std::vector<T> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of processors: RUSAGE_SELF, of all threads of this process, or
/// RUSAGE_THREAD.
inline double getProcessorSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  auto toSeconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return toSeconds(usage.ru_utime) + toSeconds(usage.ru_stime);
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_TIMING_H
