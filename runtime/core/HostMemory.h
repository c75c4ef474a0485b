//===- HostMemory.h - Large aligned memory ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_HOSTMEMORY_H
#define OPTIMUS_RUNTIME_CORE_HOSTMEMORY_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>

namespace optrt {

inline constexpr int64_t kBufferAlignment = 64;

inline int64_t alignedSize(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// One allocation that lives as long as its rank. It is zeroed at once, by the
/// calling thread: so that its pages are near that thread, and because the
/// first touch of a page costs more than the rest of a step's work on it.
class HostMemory {
public:
  static StatusOr<HostMemory> create(int64_t bytes, const char *purpose) {
    constexpr int64_t kHugePage = 2 << 20;
    int64_t alignment = bytes >= kHugePage ? kHugePage : kBufferAlignment;
    int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
    HostMemory memory;
    if (rounded == 0)
      return memory;
    memory.start.reset(
        static_cast<char *>(std::aligned_alloc(alignment, rounded)));
    if (!memory.start)
      return unavailable(concat("cannot allocate ", bytes, " bytes for ",
                                purpose,
                                ": use a mesh with more ranks or a smaller "
                                "batch"));
    if (alignment == kHugePage)
      madvise(memory.start.get(), rounded, MADV_HUGEPAGE);
    std::memset(memory.start.get(), 0, rounded);
    memory.bytes = rounded;
    return memory;
  }

  char *data() const { return start.get(); }
  int64_t size() const { return bytes; }

private:
  struct Free {
    void operator()(char *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<char, Free> start;
  int64_t bytes = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_HOSTMEMORY_H
