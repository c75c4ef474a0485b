//===- Buffer.h - Memory that a device keeps -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_BUFFER_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_BUFFER_H

#include "optimus-runtime/Status.h"

#include <cstdlib>
#include <memory>
#include <sys/mman.h>

namespace optrt {

/// Memory aligned to cache lines, that grows and forgets what it held then.
class Buffer {
public:
  /// Makes room for `bytes`; Unavailable when there is no memory.
  Status reserve(size_t bytes) {
    if (bytes <= held)
      return okStatus();
    memory.reset();
    held = 0;
    // Walking through a packed weight touches a page a few rows; with small
    // pages that misses the translation cache and costs products 5 %. What is
    // left beyond the last whole large page stays on small ones.
    constexpr size_t hugePage = 2 << 20;
    size_t alignment = bytes >= hugePage ? hugePage : 64;
    size_t rounded = (bytes + 63) / 64 * 64;
    void *start = nullptr;
    if (posix_memalign(&start, alignment, rounded) == 0)
      memory.reset(start);
    if (!memory)
      return unavailable(concat("the device needs ", rounded,
                                " bytes of scratch memory, which the system "
                                "does not have; use a smaller batch or fewer "
                                "threads per rank"));
    if (alignment == hugePage)
      madvise(memory.get(), rounded, MADV_HUGEPAGE);
    held = rounded;
    return okStatus();
  }

  size_t size() const { return held; }
  template <typename T>
  T *as() const {
    return static_cast<T *>(memory.get());
  }

private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory;
  size_t held = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_BUFFER_H
