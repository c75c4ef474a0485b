//===- Fiber.h - A stack and where its code stands --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_FIBER_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_FIBER_H

#include <cstddef>
#include <memory>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace optrt::emulator {

/// Code to switch to and back from, on the same system thread. A barrier of a
/// block is as many switches as it has threads.
class Fiber {
public:
  /// The running code, on its present stack.
  Fiber() = default;
  /// Begins with `body`, which must not return, on a stack of its own.
  explicit Fiber(void (*body)());
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Goes on with `next`; returns once somebody switches to this fiber, whose
  /// code must be the caller.
  void switchTo(Fiber &next);

private:
  /// What a fiber of its own begins with.
  static void begin();
  /// AddressSanitizer follows stacks, and is told of each switch.
  void leaveFor(Fiber &next);
  static void arrive();
  void swap(Fiber &next);

  void (*body)() = nullptr;
  std::unique_ptr<char[]> stack;
#ifdef __SANITIZE_ADDRESS__
  const void *bottom = nullptr;
  size_t bytes = 0;
  void *fakeStack = nullptr; ///< the sanitizer's
#endif
#ifdef __x86_64__
  void *top = nullptr;
#else
  ucontext_t context;
#endif
};

} // namespace optrt::emulator

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_FIBER_H
