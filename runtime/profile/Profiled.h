//===- Profiled.h - What a profile is of ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_PROFILED_H
#define OPTIMUS_RUNTIME_PROFILE_PROFILED_H

#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Session.h"
#include "optimus-support/Program.h"

#include <cstdint>
#include <vector>

namespace optrt {

/// A library whose calls took place on some ranks, or would have.
struct Profiled {
  const ModelLibrary &library;
  /// Buffers of the manifest that each rank holds, in the order of its memory.
  std::vector<int64_t> held = {};
  std::vector<Session::Callable> calls = {};
  /// Those of the file.
  std::vector<int> ranks = {};
  /// Of the job.
  int64_t threadsPerRank = 1, process = 0, processes = 1;
  /// The system's clock at time 0, in nanoseconds.
  int64_t originUnix = 0;

  /// Whether a rank's table has the function of a call.
  bool hasCall(int rank, std::size_t call) const {
    return optimus_support::program::findFunction(
               optimus_support::program::tableOf(library.target(), rank),
               calls[call].function->name) != nullptr;
  }
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_PROFILED_H
