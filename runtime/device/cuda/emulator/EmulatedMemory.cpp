//===- EmulatedMemory.cpp - What threads read and write ------* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedMemory.h"

#include <algorithm>
#include <cstring>

using namespace optrt::emulator;

/// The smallest element has two bytes.
static constexpr size_t kUnit = 2;
/// What lies so near behind a buffer is said to be an overrun of it.
static constexpr size_t kBehind = 16;

void EmulatedMemory::add(Range range) {
  range.touches.resize((range.bytes + kUnit - 1) / kUnit);
  ranges.push_back(std::move(range));
}

void EmulatedMemory::reset() {
  std::erase_if(ranges,
                [](const Range &range) { return range.kind == Kind::Buffer; });
  for (Range &range : ranges)
    std::fill(range.touches.begin(), range.touches.end(), Touch());
}

void EmulatedMemory::addBuffer(std::string name, void *begin, size_t bytes,
                               bool isWritten) {
  add({std::move(name),
       static_cast<char *>(begin),
       bytes,
       Kind::Buffer,
       isWritten,
       {}});
}
void EmulatedMemory::addShared(std::string name, void *begin, size_t bytes) {
  add({std::move(name),
       static_cast<char *>(begin),
       bytes,
       Kind::Shared,
       true,
       {}});
}
void EmulatedMemory::addTable(std::string name, void *begin, size_t bytes) {
  add({std::move(name),
       static_cast<char *>(begin),
       bytes,
       Kind::Table,
       false,
       {}});
}

void EmulatedMemory::startBlock() {
  for (Range &range : ranges) {
    if (range.kind != Kind::Shared)
      continue;
    std::memset(range.begin, 0xFF, range.bytes); // NaN
    std::fill(range.touches.begin(), range.touches.end(), Touch());
  }
}

static uint32_t getLane(const ThreadClock &clock) {
  return 1u << (clock.thread % kWarp);
}

/// Whether an access by one thread comes before another's of now.
static bool isBefore(const ThreadClock &then, const ThreadClock &now) {
  if (then.block != now.block)
    return false;
  if (then.thread == now.thread || then.barriers < now.barriers)
    return true;
  return then.thread / kWarp == now.thread / kWarp && then.syncs < now.syncs &&
         (now.syncMask & getLane(then));
}

/// Whether all of them come before what a thread does now.
bool EmulatedMemory::Readers::areBefore(const ThreadClock &now) const {
  if (last.block < 0)
    return true;
  if (manyBlocks || last.block != now.block)
    return false;
  if (last.barriers < now.barriers)
    return true;
  if (manyWarps || last.thread / kWarp != now.thread / kWarp)
    return false;
  uint32_t others = lanes & ~getLane(now);
  return !others || (last.syncs < now.syncs && !(others & ~now.syncMask));
}

void EmulatedMemory::Readers::add(const ThreadClock &reader) {
  if (areBefore(reader)) {
    *this = {.last = reader, .lanes = getLane(reader)};
    return;
  }
  manyBlocks |= last.block != reader.block;
  manyWarps |= last.thread / kWarp != reader.thread / kWarp;
  lanes |= getLane(reader);
  last = reader;
}

std::string EmulatedMemory::access(const void *address, size_t bytes,
                                   bool isWrite, size_t alignment,
                                   const ThreadClock &clock) {
  auto *begin = static_cast<const char *>(address);
  auto what = [&] {
    return describe(clock) + (isWrite ? " writes " : " reads ") +
           std::to_string(bytes) + " bytes ";
  };
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
    return what() + "where they are not aligned to " +
           std::to_string(alignment);
  auto findRange = [&](size_t behind) {
    return std::find_if(ranges.begin(), ranges.end(), [&](const Range &range) {
      return begin >= range.begin && begin < range.begin + range.bytes + behind;
    });
  };
  auto range = findRange(0);
  if (range == ranges.end())
    range = findRange(kBehind);
  if (range == ranges.end())
    return what() + "that belong to no buffer";
  size_t offset = begin - range->begin;
  auto whatAndWhere = [&] {
    return what() + "at " + std::to_string(offset) + " of '" + range->name +
           "', ";
  };
  if (offset + bytes > range->bytes)
    return whatAndWhere() + "which has " + std::to_string(range->bytes);
  if (isWrite && !range->isWritten)
    return whatAndWhere() + "which is only read";
  for (size_t unit = offset / kUnit; unit <= (offset + bytes - 1) / kUnit;
       ++unit) {
    Touch &touch = range->touches[unit];
    bool isNew = touch.writer.block < 0;
    if (touch.isCopied)
      return whatAndWhere() + "which " + describe(touch.writer) +
             " copies, and has not waited for it";
    if (isNew && !isWrite && range->kind == Kind::Shared)
      return whatAndWhere() + "which no thread of the block wrote";
    if (!isNew && !isBefore(touch.writer, clock))
      return whatAndWhere() + "which " + describe(touch.writer) +
             " wrote, and no barrier is in between";
    if (isWrite) {
      if (!touch.readers.areBefore(clock))
        return whatAndWhere() + "which " + describe(touch.readers.last) +
               " reads, as the last, and no barrier is in between";
      touch = {.writer = clock, .readers = {}};
      continue;
    }
    touch.readers.add(clock);
  }
  return "";
}

void EmulatedMemory::setCopied(void *to, size_t bytes, bool isCopied) {
  auto *begin = static_cast<char *>(to);
  for (Range &range : ranges) {
    if (begin < range.begin || begin >= range.begin + range.bytes)
      continue;
    size_t offset = begin - range.begin;
    for (size_t unit = offset / kUnit; unit <= (offset + bytes - 1) / kUnit;
         ++unit)
      range.touches[unit].isCopied = isCopied;
  }
}

std::string EmulatedMemory::beginCopy(void *to, size_t bytes,
                                      const ThreadClock &clock) {
  std::string wrong = AccessCheck::beginCopy(to, bytes, clock);
  if (wrong.empty())
    setCopied(to, bytes, true);
  return wrong;
}

std::string EmulatedMemory::endCopy(void *to, size_t bytes,
                                    const ThreadClock &clock) {
  setCopied(to, bytes, false);
  return AccessCheck::endCopy(to, bytes, clock);
}
