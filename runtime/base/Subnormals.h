//===- Subnormals.h - Numbers below the normal ones -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A processor may work on subnormal numbers, below 1.2e-38 in f32, a hundred
// times as long as on others, or take them for zero: a mode of each thread, in
// MXCSR on x86-64 and in FPCR on AArch64. Products with factors of bf16 always
// take them for zero.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_SUBNORMALS_H
#define OPTIMUS_RUNTIME_BASE_SUBNORMALS_H

#include <cstdint>

namespace optrt {

/// Whether a thread of this processor can take subnormal numbers for zero.
bool canFlushSubnormals();

/// Whether the calling thread does, as operands and as results.
bool flushesSubnormals();

/// Whether the calling thread has read a subnormal number since the last
/// question, without taking it for zero. False where processors do not say.
bool takeSubnormalsSeen();

/// While it lives, the calling thread takes subnormal numbers for zero, or does
/// not. Then all is as before, but for what the thread has seen. Where threads
/// cannot flush, nothing changes.
class SubnormalScope {
public:
  explicit SubnormalScope(bool flush);
  ~SubnormalScope();
  SubnormalScope(const SubnormalScope &) = delete;
  SubnormalScope &operator=(const SubnormalScope &) = delete;

private:
  const uint64_t before; ///< of the thread's mode
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_BASE_SUBNORMALS_H
