//===- Operands.h - Memory for what is timed --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_OPERANDS_H
#define OPTIMUS_RUNTIME_MEASURE_OPERANDS_H

#include "optimus-runtime/Device.h"
#include "optimus-support/ElementType.h"

#include <algorithm>
#include <cstdint>

namespace optrt {

/// Operands of what is timed. They are always those of the call before, or
/// where `rotates` such as no cache has any more. What is read was never
/// written: results of results would become infinite or subnormal, and
/// subnormal numbers take some processors twenty times as long.
class Operands {
public:
  static StatusOr<Operands> allocate(Device &device) {
    Operands operands;
    OPTRT_ASSIGN_OR_RETURN(
        operands.memory,
        device.allocate(kRead + kWritten, "the operands of products"));
    // 0.5 of bf16, and hardly more of f32. Not zeros: some processors multiply
    // those faster.
    std::fill_n(reinterpret_cast<uint32_t *>(operands.memory.data()),
                operands.memory.size() / sizeof(uint32_t), 0x3f003f00);
    return operands;
  }

  void begin(bool rotates) {
    if (!rotates)
      nextRead = nextWritten = 0;
  }
  /// Different ones between two calls of begin().
  char *read(int64_t elements, int32_t type) {
    return take(nextRead, memory.data(), kRead, elements, type);
  }
  char *write(int64_t elements, int32_t type) {
    return take(nextWritten, memory.data() + kRead, kWritten, elements, type);
  }

private:
  // No multiple of a cache's ways apart.
  static constexpr int64_t kRead = (int64_t(112) << 20) + (9 << 10);
  static constexpr int64_t kWritten = int64_t(80) << 20;

  static char *take(int64_t &next, char *part, int64_t size, int64_t elements,
                    int32_t type) {
    constexpr int64_t kAlignment = 1024;
    int64_t bytes = elements * optimus_support::elementBytes(
                                   optimus_support::ElementType(type));
    if (next + bytes > size)
      next = 0;
    char *start = part + next;
    next += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return start;
  }

  DeviceMemory memory;
  int64_t nextRead = 0, nextWritten = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_OPERANDS_H
