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
#include <numeric>

using namespace optrt::emulator;

/// The smallest element has two bytes, the widest access sixteen.
static constexpr size_t kLeastUnit = 2, kMostUnit = 16;
/// What lies so near behind a buffer is said to be an overrun of it.
static constexpr size_t kBehind = 16;

EmulatedMemory::Range EmulatedMemory::makeRange(std::string name, void *begin,
                                                size_t bytes, Kind kind,
                                                bool isWritten) {
  Range range = {std::move(name), static_cast<char *>(begin), bytes, kind,
                 isWritten};
  range.unit = kMostUnit;
  range.touches.resize((bytes + kMostUnit - 1) / kMostUnit);
  return range;
}

void EmulatedMemory::addGlobal(Range range) {
  auto place = std::upper_bound(
      globals.begin(), globals.end(), range.begin,
      [](char *begin, const Range &other) { return begin < other.begin; });
  globals.insert(place, std::move(range));
}

EmulatedMemory::Range *EmulatedMemory::findRange(const char *address,
                                                 size_t behind) {
  auto holds = [&](const Range &range) {
    return address >= range.begin &&
           address < range.begin + range.bytes + behind;
  };
  auto buffer = std::find_if(buffers.begin(), buffers.end(), holds);
  if (buffer != buffers.end())
    return &*buffer;
  auto global = std::upper_bound(globals.begin(), globals.end(), address,
                                 [](const char *begin, const Range &range) {
                                   return begin < range.begin;
                                 });
  if (global == globals.begin() || !holds(*--global))
    return nullptr;
  return &*global;
}

std::span<EmulatedMemory::Touch>
EmulatedMemory::Range::getTouches(size_t offset, size_t count) {
  const size_t fitting =
      std::max(kLeastUnit, std::gcd(std::gcd(offset, count), unit));
  if (fitting != unit) {
    const size_t parts = unit / fitting;
    std::vector<Touch> split((bytes + fitting - 1) / fitting);
    for (size_t i = 0; i < split.size(); ++i)
      split[i] = touches[i / parts];
    touches = std::move(split);
    unit = fitting;
  }
  isFresh = false;
  const size_t first = offset / unit, end = (offset + count - 1) / unit + 1;
  for (size_t i = first; i != end; ++i)
    if (touches[i].epoch != epoch)
      touches[i] = {.readers = {}, .epoch = epoch};
  return std::span(touches).subspan(first, end - first);
}

void EmulatedMemory::reset() {
  buffers.clear();
  for (Range &range : globals)
    range.forget();
}

void EmulatedMemory::addBuffer(std::string name, void *begin, size_t bytes,
                               bool isWritten) {
  buffers.push_back(
      makeRange(std::move(name), begin, bytes, Kind::Buffer, isWritten));
}
void EmulatedMemory::addShared(std::string name, void *begin, size_t bytes) {
  addGlobal(makeRange(std::move(name), begin, bytes, Kind::Shared, true));
}
void EmulatedMemory::addTable(std::string name, void *begin, size_t bytes) {
  addGlobal(makeRange(std::move(name), begin, bytes, Kind::Table, false));
}

void EmulatedMemory::startBlock() {
  for (Range &range : globals) {
    if (range.kind != Kind::Shared || range.isFresh)
      continue;
    std::memset(range.begin, 0xFF, range.bytes); // NaN
    range.forget();
    range.isFresh = true;
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
  Range *range = findRange(begin, 0);
  if (!range)
    range = findRange(begin, kBehind);
  if (!range)
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
  for (Touch &touch : range->getTouches(offset, bytes)) {
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
      touch = {.writer = clock, .readers = {}, .epoch = range->epoch};
      continue;
    }
    touch.readers.add(clock);
  }
  return "";
}

void EmulatedMemory::setCopied(void *to, size_t bytes, bool isCopied) {
  auto *begin = static_cast<char *>(to);
  if (Range *range = findRange(begin, 0))
    for (Touch &touch : range->getTouches(begin - range->begin, bytes))
      touch.isCopied = isCopied;
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
