//===- OutOfMemory.cpp - How a tool ends without memory -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/OutOfMemory.h"

#include "optimus-support/TemporaryPath.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

using namespace optimus_support;

namespace {

constexpr double kMebi = 1048576;

/// The address space of this process in bytes; 0 where it cannot be told.
size_t addressSpace() {
  char text[64] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return 0;
  [[maybe_unused]] ssize_t got = read(file, text, sizeof(text) - 1);
  close(file);
  return strtoull(text, nullptr, 10) * size_t(sysconf(_SC_PAGESIZE));
}

} // namespace

void optimus_support::exitOutOfMemory(size_t bytes) {
  // What one thread lacks, others soon lack too.
  static std::atomic_flag isEnding;
  while (isEnding.test_and_set())
    pause();
  char asked[64] = "more";
  if (bytes > 0)
    snprintf(asked, sizeof(asked), "%zu bytes", bytes);
  char limited[96] = "the machine has no more; use a smaller input";
  for (auto [resource, flag] :
       {std::pair(RLIMIT_AS, 'v'), std::pair(RLIMIT_DATA, 'd')})
    if (rlimit limit;
        getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      snprintf(limited, sizeof(limited),
               "`ulimit -%c` allows %.0f MiB; raise it, or use a smaller input",
               flag, double(limit.rlim_cur) / kMebi);
      break;
    }
  char text[512];
  int length = snprintf(text, sizeof(text),
                        "%s: error: out of memory: %s were asked for when the "
                        "process had %.0f MiB, and %s\n",
                        program_invocation_short_name, asked,
                        double(addressSpace()) / kMebi, limited);
  [[maybe_unused]] ssize_t put =
      write(STDERR_FILENO, text,
            std::min(size_t(std::max(length, 0)), sizeof(text) - 1));
  removeTemporaries();
  _exit(1);
}

// Who comes too late is no help: MLIR does not look at what malloc() gives it,
// and LLVM does, but no longer knows how much it was. glibc keeps its own under
// other names for those who come first. Sanitizers do, too.
#if defined(__GLIBC__) && !defined(OPTIMUS_KEEP_MALLOC)

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

// Seen by shared libraries, libstdc++'s operator new among them: in Clang,
// -fvisibility=hidden holds for these too.
[[gnu::visibility("default")]] void *malloc(size_t bytes) noexcept {
  void *memory = __libc_malloc(bytes);
  if (!memory)
    exitOutOfMemory(bytes);
  return memory;
}

[[gnu::visibility("default")]] void *calloc(size_t count,
                                            size_t bytes) noexcept {
  void *memory = __libc_calloc(count, bytes);
  size_t all = 0;
  if (!memory)
    exitOutOfMemory(__builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX
                                                               : all);
  return memory;
}

[[gnu::visibility("default")]] void *realloc(void *old, size_t bytes) noexcept {
  void *memory = __libc_realloc(old, bytes);
  if (!memory && bytes > 0)
    exitOutOfMemory(bytes);
  return memory;
}
}

// operator delete calls free(), and the others call malloc(): also where an
// allocator's library has an operator new of its own, which would abort.

void *operator new(size_t bytes) { return malloc(std::max<size_t>(bytes, 1)); }

void *operator new[](size_t bytes) { return operator new(bytes); }

void *operator new(size_t bytes, std::align_val_t alignment) {
  void *memory = nullptr;
  if (posix_memalign(&memory, std::max(size_t(alignment), sizeof(void *)),
                     std::max<size_t>(bytes, 1)) != 0)
    exitOutOfMemory(bytes);
  return memory;
}

// Who asks so can do with less, as std::stable_sort().
void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
  return __libc_malloc(std::max<size_t>(bytes, 1));
}

void *operator new[](size_t bytes, const std::nothrow_t &) noexcept {
  return operator new(bytes, std::nothrow);
}

#endif
