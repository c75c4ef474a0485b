//===- HostAccess.cpp - Host code that follows a GPU's pointer ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostAccess.h"

#include "FakeGpu.h"

#include <csignal>
#include <string_view>
#include <unistd.h>

namespace optrt::cuda::fake {

static struct sigaction before;

// Faults are the own thread's and come from code without a lock of the GPU's,
// so the data read here stands still in tests with one rank.
static void tell(int, siginfo_t *fault, void *) {
  const Gpu &gpu = Gpu::get();
  if (gpu.memory.isHidden(fault->si_addr)) {
    // A handler allocates nothing.
    auto write = [](std::string_view text) {
      (void)!::write(STDERR_FILENO, text.data(), text.size());
    };
    write("fake GPU: host code touches the device's memory");
    if (!gpu.latest.empty())
      write("; the last that was put on a stream is ");
    write(gpu.latest);
    write("\n");
  }
  // The access happens again, and ends as it did before.
  sigaction(SIGSEGV, &before, nullptr);
}

void tellOfHostAccesses() {
  struct sigaction action = {};
  action.sa_sigaction = tell;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before);
}

} // namespace optrt::cuda::fake
