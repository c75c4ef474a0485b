//===- HiddenMemory.h - Memory that host code cannot touch ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_HIDDEN_HIDDENMEMORY_H
#define OPTIMUS_RUNTIME_DEVICE_HIDDEN_HIDDENMEMORY_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <functional>
#include <map>

namespace optrt {

/// Memory as a device has it: an address is a place in pages without access;
/// its bytes are elsewhere, visible, between such pages too, so that nobody
/// touches the bytes behind them. No address is given out twice.
class HiddenMemory {
public:
  HiddenMemory() = default;
  ~HiddenMemory();
  HiddenMemory(const HiddenMemory &) = delete;
  HiddenMemory &operator=(const HiddenMemory &) = delete;

  /// Zeroed bytes, aligned to the largest power of two that divides their
  /// number, up to a page. Null where the system has none.
  void *allocate(int64_t bytes);
  /// An address for memory that is somebody else's. Null where the system has
  /// none.
  void *hide(char *visible, int64_t bytes);
  /// Gives memory back. Its address stays taken, so that late users are found.
  void release(void *start);

  /// Where host code finds `bytes` at an address; null for null.
  ///
  /// Errors: Internal where they are not, or no longer, the device's.
  StatusOr<void *> find(const void *address, int64_t bytes) const;
  /// Whether an address was ever given out, or lies behind one.
  bool isHidden(const void *address) const {
    return findBlock(address) != blocks.end();
  }
  /// Whether bytes are visible ones of one piece of memory.
  bool isVisible(const void *address, int64_t bytes) const;

private:
  struct Block {
    char *visible; ///< null when it was given back
    int64_t bytes;
    /// What was mapped at `visible`, with the pages around it.
    void *mapped = nullptr;
    size_t mappedBytes = 0;
  };
  /// By address, descending.
  using Blocks = std::map<const char *, Block, std::greater<>>;
  Blocks::const_iterator findBlock(const void *address) const;
  void *add(Block block);

  Blocks blocks;
  /// The bytes of what is there, by visible address.
  std::map<const char *, int64_t, std::greater<>> visible;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_HIDDEN_HIDDENMEMORY_H
