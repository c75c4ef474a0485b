//===- DynamicPlacement.cpp - Buffers allocated as they begin -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DynamicPlacement.h"

#include <algorithm>
#include <cstdlib>

using namespace optimus_support::program;

namespace optrt {

DynamicPlacement::DynamicPlacement(const FunctionT &function)
    : function(function), alive(function), addresses(function.buffers.size()) {}

DynamicPlacement::~DynamicPlacement() {
  // Of a call that failed.
  for (char *address : addresses)
    std::free(address);
}

void DynamicPlacement::beginBinding(uint32_t command) {
  for (uint32_t buffer : alive.begin(command))
    allocated.push_back(buffer);
}

void DynamicPlacement::endBinding(uint32_t command) {
  for (uint32_t buffer : alive.end(command))
    freed.push_back(buffer);
  ends.push_back({allocated.size(), pointers.size(), freed.size()});
}

Status DynamicPlacement::bind(uint32_t arena, int64_t offset, void **pointer) {
  const std::optional<uint32_t> buffer = alive.find(arena, offset, offset + 1);
  if (!buffer)
    return unavailable(
        "has no buffers that could be placed dynamically: the program does not "
        "list them; use planned placement");
  pointers.push_back(
      {pointer, *buffer, offset - function.buffers[*buffer]->offset});
  return okStatus();
}

Status DynamicPlacement::begin(uint32_t command, CommandObserver *observer) {
  for (size_t i = ends[command].allocated; i != ends[command + 1].allocated;
       ++i) {
    const uint32_t buffer = allocated[i];
    const int64_t bytes = function.buffers[buffer]->bytes;
    CommandTimes times;
    times.begin = observer ? steadyNanoseconds() : 0;
    char *&address = addresses[buffer];
    // A buffer that a failed call has left is used again.
    if (!address)
      address = static_cast<char *>(std::aligned_alloc(
          kBufferAlignment, alignedSize(std::max<int64_t>(bytes, 1))));
    if (!address)
      return unavailable(concat("cannot allocate ", bytes,
                                " bytes for a buffer: use a mesh with more "
                                "ranks or a smaller batch"));
    if (!observer)
      continue;
    times.end = steadyNanoseconds();
    observer->allocated(buffer, address, times);
  }
  for (size_t i = ends[command].pointers; i != ends[command + 1].pointers; ++i)
    *pointers[i].pointer = addresses[pointers[i].buffer] + pointers[i].offset;
  return okStatus();
}

void DynamicPlacement::end(uint32_t command, CommandObserver *observer) {
  for (size_t i = ends[command].freed; i != ends[command + 1].freed; ++i) {
    CommandTimes times;
    times.begin = observer ? steadyNanoseconds() : 0;
    std::free(std::exchange(addresses[freed[i]], nullptr));
    if (!observer)
      continue;
    times.end = steadyNanoseconds();
    observer->freed(freed[i], times);
  }
}

} // namespace optrt
