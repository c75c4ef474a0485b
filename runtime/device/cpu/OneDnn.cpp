//===- OneDnn.cpp - What products share of oneDNN ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneDnn.h"

#include <stdexcept>
#include <sys/mman.h>

using namespace optrt;

Status optrt::checkRoomForCode() {
  constexpr size_t kRoom = size_t(32) << 20;
  void *room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return unavailable(concat("out of memory: fewer than ", kRoom,
                              " bytes are left, too few to generate the code "
                              "of matrix products; allow more (ulimit -v)"));
  munmap(room, kRoom);
  return okStatus();
}

dnnl::engine optrt::createEngine() {
  // It crashes without memory, too. How it fails otherwise is an exception.
  if (Status room = checkRoomForCode(); !room.ok())
    throw std::runtime_error(room.message());
  return dnnl::engine(dnnl::engine::kind::cpu, 0);
}
