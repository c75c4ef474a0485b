//===- MachineMemory.cpp - What a program may hold ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/MachineMemory.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

int64_t optimus_support::machineMemoryBytes() {
  int64_t bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  // Of this process's group where it is the root of what can be seen, as in a
  // container; in versions 2 and 1 of such groups.
  for (const char *file : {"/sys/fs/cgroup/memory.max",
                           "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t limit = 0;
    if (std::ifstream(file) >> limit && limit > 0)
      bytes = std::min(bytes, limit);
  }
  return bytes;
}
