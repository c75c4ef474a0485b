//===- DynamicPlacement.h - Buffers allocated as they begin -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_DYNAMICPLACEMENT_H
#define OPTIMUS_RUNTIME_PROGRAM_DYNAMICPLACEMENT_H

#include "optimus-runtime/Rank.h"
#include "optimus-support/ProgramLifetimes.h"

#include <cstdint>
#include <vector>

namespace optrt {

/// In place of an arena: each buffer of a function is taken from the host's
/// allocator before its first command and given back after its last one. For
/// comparison with planned arenas; results are the same.
class DynamicPlacement {
public:
  /// The function must outlive it.
  explicit DynamicPlacement(
      const optimus_support::program::FunctionT &function);
  ~DynamicPlacement();
  DynamicPlacement(const DynamicPlacement &) = delete;
  DynamicPlacement &operator=(const DynamicPlacement &) = delete;

  /// Commands are bound in order, each between these two.
  void beginBinding(uint32_t command);
  void endBinding(uint32_t command);
  /// Where the bound command has the address of a byte of an arena, which is
  /// formed anew each time; it must stay.
  ///
  /// Errors: Unavailable where the function does not list the buffer.
  Status bind(uint32_t arena, int64_t offset, void **pointer);

  /// Allocates what begins with a command and forms its addresses. The observer
  /// may be null.
  ///
  /// Errors: Unavailable where memory is short.
  Status begin(uint32_t command, CommandObserver *observer);
  /// Frees what ends with it.
  void end(uint32_t command, CommandObserver *observer);

private:
  struct Pointer {
    void **pointer;
    uint32_t buffer;
    int64_t offset; ///< in the buffer
  };
  /// The ends of a command's parts of the lists.
  struct Ends {
    size_t allocated, pointers, freed;
  };

  const optimus_support::program::FunctionT &function;
  optimus_support::program::LiveBuffers alive;
  std::vector<Ends> ends{{0, 0, 0}}; ///< of the command before
  std::vector<uint32_t> allocated, freed;
  std::vector<Pointer> pointers;
  std::vector<char *> addresses; ///< of buffers; null while not alive
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_DYNAMICPLACEMENT_H
