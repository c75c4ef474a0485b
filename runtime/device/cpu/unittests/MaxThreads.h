//===- MaxThreads.h - How many threads tests may use -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_MAXTHREADS_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_MAXTHREADS_H

#include <thread>

namespace optrt {

/// GNU OpenMP's barriers are not instrumented, so under the thread sanitizer
/// every team is one thread.
#ifdef __SANITIZE_THREAD__
inline constexpr int maxThreads = 1;
#else
inline constexpr int maxThreads = 4;
#endif

/// On a thread of its own, whose settings and team of OpenMP nobody else sees.
template <typename Body>
void onThread(const Body &body) {
  std::thread(body).join();
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_UNITTESTS_MAXTHREADS_H
