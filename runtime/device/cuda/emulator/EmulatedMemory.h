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

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_EMULATEDMEMORY_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_EMULATEDMEMORY_H

#include "AccessCheck.h"

#include <span>
#include <vector>

namespace optrt::emulator {

class EmulatedMemory final : public AccessCheck {
public:
  /// Forgets all; tables are kept.
  void reset();
  void addBuffer(std::string name, void *begin, size_t bytes, bool isWritten);
  /// Memory of a block, which no thread of another has written.
  void addShared(std::string name, void *begin, size_t bytes);
  void addTable(std::string name, void *begin, size_t bytes);

  void startBlock() override;
  std::string access(const void *address, size_t bytes, bool isWrite,
                     size_t alignment, const ThreadClock &clock) override;
  std::string beginCopy(void *to, size_t bytes,
                        const ThreadClock &clock) override;
  std::string endCopy(void *to, size_t bytes,
                      const ThreadClock &clock) override;

private:
  /// The readers of a unit, except those before all of these.
  struct Readers {
    ThreadClock last{.block = -1};
    /// Of the last one's warp, a bit each.
    uint32_t lanes = 0;
    bool manyWarps = false, manyBlocks = false;

    bool areBefore(const ThreadClock &now) const;
    void add(const ThreadClock &reader);
  };
  /// The last writer of a unit, and its readers since.
  struct Touch {
    ThreadClock writer{.block = -1};
    Readers readers;
    /// The range's epoch of all this: in a later one nobody touched the unit.
    uint32_t epoch = 0;
    /// Whether the writer copies, and has not waited for it.
    bool isCopied = false;
  };
  enum class Kind { Buffer, Shared, Table };
  struct Range {
    std::string name;
    char *begin;
    size_t bytes;
    Kind kind;
    bool isWritten;
    /// Bytes of a unit: every access so far touched whole ones.
    size_t unit = 0;
    uint32_t epoch = 0;
    std::vector<Touch> touches = {};
    /// Whether all of it is as a block finds it.
    bool isFresh = false;

    /// Forgets who touched it.
    void forget() { ++epoch; }
    /// The touches of bytes at an offset. Splits units that they do not fill.
    std::span<Touch> getTouches(size_t offset, size_t count);
  };
  static Range makeRange(std::string name, void *begin, size_t bytes, Kind kind,
                         bool isWritten);
  void addGlobal(Range range);
  /// The range that holds an address, or ends so near before it; else null.
  Range *findRange(const char *address, size_t behind);
  /// Says of all of these bytes, which lie in one range, whether they are
  /// copied.
  void setCopied(void *to, size_t bytes, bool isCopied);

  /// Of the launch; they may share bytes, and the first counts.
  std::vector<Range> buffers;
  /// Of all kernels, by where they begin. They share none.
  std::vector<Range> globals;
};

} // namespace optrt::emulator

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_EMULATEDMEMORY_H
