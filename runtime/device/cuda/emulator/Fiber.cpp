//===- Fiber.cpp - A stack and where its code stands ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fiber.h"

#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

using namespace optrt::emulator;

static constexpr size_t kStackBytes = 64 << 10;

/// The last switch; one system thread at a time emulates.
static Fiber *from, *to;

void Fiber::begin() {
  arrive();
  to->body();
}

void Fiber::leaveFor(Fiber &next) {
  from = this;
  to = &next;
#ifdef __SANITIZE_ADDRESS__
  if (next.stack) {
    next.bottom = next.stack.get();
    next.bytes = kStackBytes;
  }
  __sanitizer_start_switch_fiber(&fakeStack, next.bottom, next.bytes);
#endif
}

void Fiber::arrive() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(to->fakeStack, &from->bottom, &from->bytes);
#endif
}

void Fiber::switchTo(Fiber &next) {
  leaveFor(next);
  swap(next);
  arrive();
}

#ifdef __x86_64__

// swapcontext() would keep the mask of signals, too: a call of the system for
// every switch, which took as long as all computation of the kernels.
extern "C" [[gnu::visibility("hidden")]] void optimus_switch_stack(void **from,
                                                                   void *to);

// What the caller of a function takes to be unchanged lies on the stack.
asm(R"(
.text
.p2align 4
.globl optimus_switch_stack
.hidden optimus_switch_stack
.type optimus_switch_stack, @function
optimus_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size optimus_switch_stack, . - optimus_switch_stack
)");

Fiber::Fiber(void (*body)())
    : body(body), stack(std::make_unique_for_overwrite<char[]>(kStackBytes)) {
  // Six registers, where to go on, and where that would return to: nowhere. A
  // function begins 8 bytes below a multiple of 16.
  constexpr size_t kWords = 8;
  auto end = reinterpret_cast<uintptr_t>(stack.get() + kStackBytes) & ~15;
  auto *words = reinterpret_cast<uintptr_t *>(end) - kWords;
  for (size_t word = 0; word < kWords; ++word)
    words[word] = 0;
  words[kWords - 2] = reinterpret_cast<uintptr_t>(&Fiber::begin);
  top = words;
}

void Fiber::swap(Fiber &next) { optimus_switch_stack(&top, next.top); }

#else

Fiber::Fiber(void (*body)())
    : body(body), stack(std::make_unique_for_overwrite<char[]>(kStackBytes)) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack.get();
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, &Fiber::begin, 0);
}

void Fiber::swap(Fiber &next) { swapcontext(&context, &next.context); }

#endif
