//===- AccessCheck.h - What threads may touch ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_ACCESSCHECK_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_ACCESSCHECK_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace optrt::emulator {

inline constexpr size_t kWarp = 32;

/// Where a thread is, and what it has waited for.
struct ThreadClock {
  int32_t block = 0, thread = 0;
  /// How often its block came together, and since then its part of a warp.
  int32_t barriers = 0, syncs = 0;
  /// The threads of the warp that came together last, a bit each.
  uint32_t syncMask = 0;
};

/// Is told of every access of a kernel.
class AccessCheck {
public:
  virtual ~AccessCheck() = default;

  /// A block's threads begin; what they share is nobody's yet.
  virtual void startBlock() = 0;
  /// Returns what is wrong with an access, or nothing.
  virtual std::string access(const void *address, size_t bytes, bool isWrite,
                             size_t alignment, const ThreadClock &clock) = 0;
  /// A copy by this thread begins: until it ends, nobody may touch its bytes.
  /// They may arrive at once, or as late as at its end: both are writes.
  virtual std::string beginCopy(void *to, size_t bytes,
                                const ThreadClock &clock) {
    return access(to, bytes, /*isWrite=*/true, bytes, clock);
  }
  virtual std::string endCopy(void *to, size_t bytes,
                              const ThreadClock &clock) {
    return access(to, bytes, /*isWrite=*/true, bytes, clock);
  }
};

/// "thread 3 of block 0".
inline std::string describe(const ThreadClock &clock) {
  return "thread " + std::to_string(clock.thread) + " of block " +
         std::to_string(clock.block);
}

} // namespace optrt::emulator

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_ACCESSCHECK_H
