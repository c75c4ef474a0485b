//===- HiddenMemory.cpp - Memory that host code cannot touch --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HiddenMemory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace optrt {

/// Pages without access; null where the system has none.
static void *reserve(int64_t bytes) {
  void *start = mmap(nullptr, size_t(bytes), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

HiddenMemory::~HiddenMemory() {
  for (const auto &[hidden, block] : blocks) {
    if (block.visible && block.mapped)
      munmap(block.mapped, block.mappedBytes);
    munmap(const_cast<char *>(hidden), size_t(block.bytes));
  }
}

void *HiddenMemory::add(Block block) {
  void *const hidden = reserve(block.bytes);
  if (!hidden)
    return nullptr;
  visible[block.visible] = block.bytes;
  blocks[static_cast<const char *>(hidden)] = block;
  return hidden;
}

void *HiddenMemory::allocate(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t pages = (bytes + page - 1) / page;
  Block block{nullptr, bytes, reserve((pages + 2) * page),
              static_cast<size_t>((pages + 2) * page)};
  if (!block.mapped)
    return nullptr;
  char *const first = static_cast<char *>(block.mapped) + page;
  // Up to the page that nobody can touch.
  block.visible = first + pages * page - bytes;
  if (mprotect(first, size_t(pages * page), PROT_READ | PROT_WRITE) == 0)
    if (void *hidden = add(block))
      return hidden;
  munmap(block.mapped, block.mappedBytes);
  return nullptr;
}

void *HiddenMemory::hide(char *start, int64_t bytes) {
  return add({start, bytes});
}

void HiddenMemory::release(void *start) {
  Block &block = blocks.find(static_cast<const char *>(start))->second;
  visible.erase(block.visible);
  if (block.mapped)
    munmap(block.mapped, block.mappedBytes);
  block.visible = nullptr;
}

HiddenMemory::Blocks::const_iterator
HiddenMemory::findBlock(const void *address) const {
  const auto *hidden = static_cast<const char *>(address);
  // Keys descend: the first that is not above.
  auto block = blocks.lower_bound(hidden);
  return block != blocks.end() && hidden - block->first < block->second.bytes
             ? block
             : blocks.end();
}

StatusOr<void *> HiddenMemory::find(const void *address, int64_t bytes) const {
  if (!address)
    return nullptr;
  auto block = findBlock(address);
  if (block == blocks.end())
    return internal(
        concat("touches ", bytes, " bytes that are not the device's"));
  if (!block->second.visible)
    return internal(concat("touches ", bytes,
                           " bytes that were given back before its turn came"));
  const int64_t offset = static_cast<const char *>(address) - block->first;
  const int64_t left = block->second.bytes - offset;
  if (bytes > left)
    return internal(concat("touches ", bytes, " bytes where ", left,
                           " are left of what was allocated"));
  return block->second.visible + offset;
}

bool HiddenMemory::isVisible(const void *address, int64_t bytes) const {
  const auto *place = static_cast<const char *>(address);
  auto found = visible.lower_bound(place);
  return found != visible.end() &&
         place - found->first + bytes <= found->second;
}

} // namespace optrt
