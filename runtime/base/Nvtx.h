//===- Nvtx.h - Ranges for NVIDIA's tools -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_NVTX_H
#define OPTIMUS_RUNTIME_BASE_NVTX_H

#include "NvtxApi.h"

#include "optimus-runtime/Status.h"

namespace optrt {

/// Names what a thread does, for Nsight Systems and whatever else speaks NVTX,
/// in the domain "optimus".
class Nvtx {
public:
  /// Opens the library in $NVTX_INJECTION64_PATH, which tools set, once for a
  /// process. Null where nobody listens. Unavailable for a library that cannot
  /// be opened or does not start.
  static StatusOr<const Nvtx *> open();

  /// Begins a range of this thread's within those that it has begun.
  void push(const char *name) const;
  /// Ends the last one.
  void pop() const;

private:
  Status load(const char *path);

  nvtx::Domain domain = nullptr;
};

/// A range as long as it lives; without anybody who listens, nothing.
class NvtxRange {
public:
  NvtxRange(const Nvtx *listener, const char *name) : listener(listener) {
    if (listener)
      listener->push(name);
  }
  ~NvtxRange() {
    if (listener)
      listener->pop();
  }
  NvtxRange(const NvtxRange &) = delete;
  NvtxRange &operator=(const NvtxRange &) = delete;

private:
  const Nvtx *listener;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_BASE_NVTX_H
