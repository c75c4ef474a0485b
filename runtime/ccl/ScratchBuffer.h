//===- ScratchBuffer.h - Memory that collectives share ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_SCRATCHBUFFER_H
#define OPTIMUS_RUNTIME_CCL_SCRATCHBUFFER_H

#include <cstddef>
#include <memory>
#include <new>
#include <sys/mman.h>

namespace optrt {

/// A buffer of one operation after the other, as large as the largest of them
/// asked for. Pages come from the system and go back when it grows: the heap
/// keeps what is freed, and a rank would hold more than it reports.
class ScratchBuffer {
public:
  /// The start of `bytes` or more. What lay there is lost where it grows.
  std::byte *reserve(std::size_t bytes) {
    if (bytes <= held)
      return data();
    memory.reset();
    held = 0;
    void *start = bytes < kPages ? operator new(bytes) : map(bytes);
    memory = {static_cast<std::byte *>(start), Release{bytes}};
    held = bytes;
    return data();
  }

  std::byte *data() const { return memory.get(); }

private:
  /// From so many bytes on the rest of a page does not count.
  static constexpr std::size_t kPages = 1 << 16;

  static void *map(std::size_t bytes) {
    void *start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
      throw std::bad_alloc();
    return start;
  }

  struct Release {
    std::size_t bytes;
    void operator()(std::byte *start) const {
      if (bytes < kPages)
        operator delete(start);
      else
        munmap(start, bytes);
    }
  };

  std::unique_ptr<std::byte, Release> memory;
  std::size_t held = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_SCRATCHBUFFER_H
