//===- Subnormals.cpp - Numbers below the normal ones ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Subnormals.h"

namespace optrt {
namespace {

// Each is said to touch memory: no arithmetic on loaded numbers is moved
// across.
#if defined(__x86_64__)
constexpr uint64_t kFlush = 0x8040; ///< flush to zero, denormals are zero
constexpr uint64_t kSeen = 0x2;     ///< an operand was one

uint64_t readMode() {
  uint32_t mode;
  asm volatile("stmxcsr %0" : "=m"(mode) : : "memory");
  return mode;
}

void writeMode(uint64_t all) {
  const auto mode = static_cast<uint32_t>(all);
  asm volatile("ldmxcsr %0" : : "m"(mode) : "memory");
}

/// The oldest of these processors have no mode for operands.
uint64_t modesThere() {
  struct alignas(16) {
    uint8_t before[28];
    uint32_t mask;
    uint8_t after[480];
  } area = {};
  asm volatile("fxsave64 %0" : "+m"(area) : : "memory");
  return area.mask;
}
#elif defined(__aarch64__)
constexpr uint64_t kFlush = uint64_t(1) << 24;
constexpr uint64_t kSeen = 0; ///< said only of those that were flushed

uint64_t readMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode) : : "memory");
  return mode;
}

void writeMode(uint64_t mode) {
  asm volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

uint64_t modesThere() { return kFlush; }
#else
constexpr uint64_t kFlush = 0, kSeen = 0;
uint64_t readMode() { return 0; }
void writeMode(uint64_t) {}
uint64_t modesThere() { return 0; }
#endif

} // namespace

bool canFlushSubnormals() {
  static const bool can = kFlush != 0 && (modesThere() & kFlush) == kFlush;
  return can;
}

bool flushesSubnormals() {
  return kFlush != 0 && (readMode() & kFlush) == kFlush;
}

bool takeSubnormalsSeen() {
  const uint64_t mode = readMode();
  if ((mode & kSeen) == 0)
    return false;
  writeMode(mode & ~kSeen);
  return true;
}

SubnormalScope::SubnormalScope(bool flush) : before(readMode()) {
  const uint64_t mode =
      flush && canFlushSubnormals() ? before | kFlush : before & ~kFlush;
  if (mode != before)
    writeMode(mode);
}

SubnormalScope::~SubnormalScope() {
  const uint64_t mode = readMode();
  if (const uint64_t after = (mode & ~kFlush) | (before & kFlush);
      after != mode)
    writeMode(after);
}

} // namespace optrt
