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
#include "optimus-support/Sizes.h"

#include <cstdlib>
#include <memory>
#include <sys/mman.h>

namespace optrt {

/// Memory aligned to cache lines. It grows, and forgets its contents then,
/// until it is sealed.
class Buffer {
public:
  /// Makes room for so many bytes; Unavailable when there is no memory, Internal
  /// where it is sealed.
  Status reserve(optimus_support::CheckedSize needed) {
    if (!needed.isAtMost(optimus_support::kMaxBytes))
      return invalidArgument(concat("the device would need ",
                                    needed.toString(),
                                    " bytes of scratch memory; expected at "
                                    "most ",
                                    optimus_support::kMaxBytes));
    const auto bytes = static_cast<size_t>(*needed.get());
    if (bytes <= held)
      return okStatus();
    if (isSealed)
      return internal(concat("it needs ", bytes,
                             " bytes of scratch memory; ", held,
                             " are there, by what the program had said"));
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

  /// From now on it is as large as it is, or may grow again.
  void seal(bool sealed) { isSealed = sealed; }

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
  bool isSealed = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_BUFFER_H
