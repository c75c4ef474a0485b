//===- Recorder.h - Does again what was put on queues -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_RECORDER_H
#define OPTIMUS_RUNTIME_RECORDER_H

#include "optimus-runtime/Status.h"

#include <cstdint>

namespace optrt {

/// Records what is put on queues, to do it again with one call, as a CUDA graph
/// captured from streams. Addresses and scalars are recorded as they are; host
/// code and synchronize() have no place in between.
class Recorder {
public:
  virtual ~Recorder() = default;

  /// From now on nothing is done, only recorded.
  virtual Status beginRecording() = 0;
  /// What was recorded gets a number. Fails where anything in between did not
  /// allow it; in either case the recording is over.
  virtual StatusOr<uint32_t> endRecording() = 0;
  /// Ends a recording of which something failed.
  virtual void abandonRecording() { (void)endRecording(); }
  /// Runs the recorded work, behind all work on the queue for computation and
  /// before any later work there.
  virtual Status replay(uint32_t recording) = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_RECORDER_H
