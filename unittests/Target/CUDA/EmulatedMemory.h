//===- EmulatedMemory.h - What threads read and write --------* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Holds every access of a kernel against the buffers that it was given, and
// against the accesses of other threads: two threads may touch an element, one
// of them writing, only if they came together in between.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDMEMORY_H
#define OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDMEMORY_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mlir::optimus::emulator {

inline constexpr size_t kWarp = 32;

/// Where a thread is, and what it has waited for.
struct ThreadClock {
  int32_t block = 0, thread = 0;
  /// How often its block came together, and since then its part of a warp.
  int32_t barriers = 0, syncs = 0;
  /// The threads of the warp that came together last, a bit each.
  uint32_t syncMask = 0;
};

class EmulatedMemory {
public:
  /// Forgets all; tables are kept.
  void reset();
  void addBuffer(std::string name, void *begin, size_t bytes, bool isWritten);
  /// Memory of a block, which no thread of another has written.
  void addShared(std::string name, void *begin, size_t bytes);
  void addTable(std::string name, void *begin, size_t bytes);
  void startBlock();

  /// Returns what is wrong with an access, or nothing.
  std::string access(const void *address, size_t bytes, bool isWrite,
                     size_t alignment, const ThreadClock &clock);

private:
  /// Who read two bytes, but for those that came before all of these.
  struct Readers {
    ThreadClock last{.block = -1};
    /// Of the last one's warp, a bit each.
    uint32_t lanes = 0;
    bool manyWarps = false, manyBlocks = false;

    bool areBefore(const ThreadClock &now) const;
    void add(const ThreadClock &reader);
  };
  /// Who wrote two bytes last, and who read them since.
  struct Touch {
    ThreadClock writer{.block = -1};
    Readers readers;
  };
  enum class Kind { Buffer, Shared, Table };
  struct Range {
    std::string name;
    char *begin;
    size_t bytes;
    Kind kind;
    bool isWritten;
    std::vector<Touch> touches;
  };
  void add(Range range);

  std::vector<Range> ranges;
};

} // namespace mlir::optimus::emulator

#endif // OPTIMUS_UNITTESTS_TARGET_CUDA_EMULATEDMEMORY_H
