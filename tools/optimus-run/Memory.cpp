//===- Memory.cpp - Allocations that fail ---------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program's own operator new, whose exception says how much was asked for.
// The delete operators of the standard library free what it returns.
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Exception.h"

#include <cstdlib>

// Sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static void *allocated(void *memory, std::size_t bytes) {
  if (!memory)
    throw optrt::OutOfMemory(bytes);
  return memory;
}

void *operator new(std::size_t bytes) {
  return allocated(std::malloc(bytes ? bytes : 1), bytes);
}

void *operator new(std::size_t bytes, std::align_val_t alignment) {
  void *memory = nullptr;
  if (posix_memalign(&memory, static_cast<std::size_t>(alignment),
                     bytes ? bytes : 1) != 0)
    memory = nullptr;
  return allocated(memory, bytes);
}

#endif
