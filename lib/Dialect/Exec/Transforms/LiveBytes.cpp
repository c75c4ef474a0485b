//===- LiveBytes.cpp - How much memory is alive, slot by slot ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LiveBytes.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"

using namespace mlir;
using namespace mlir::exec;

LiveBytes::LiveBytes(int64_t numSlots, int64_t bound)
    : numSlots(std::max<int64_t>(1, numSlots)), bound(bound),
      largest(4 * this->numSlots), added(4 * this->numSlots) {}

void LiveBytes::touch(Value base, int64_t slot) {
  if (!base.getDefiningOp<AllocOp>())
    return;
  auto [found, isNew] = buffers.try_emplace(base);
  Buffer &buffer = found->second;
  if (isNew)
    buffer = {getPlacedBytes(base), {Range{slot, slot}}};
  Range &range = buffer.ranges.front();
  range.first = std::min(range.first, slot);
  range.last = std::max(range.last, slot);
}

void LiveBytes::addResident(Value base, int64_t first, int64_t last) {
  Buffer &buffer = buffers.try_emplace(base).first->second;
  buffer.bytes = getPlacedBytes(base);
  if (!buffer.ranges.empty() && first <= buffer.ranges.back().last + 1)
    buffer.ranges.back().last = std::max(buffer.ranges.back().last, last);
  else
    buffer.ranges.push_back({first, last});
}

void LiveBytes::seal() {
  for (auto &[base, buffer] : buffers)
    for (const Range &range : buffer.ranges)
      add(range.first, range.last + 1, buffer.bytes);
}

const LiveBytes::Range &LiveBytes::findRange(const Buffer &buffer,
                                             int64_t slot) {
  const Range *found = buffer.ranges.begin();
  for (const Range &range : buffer.ranges)
    if (range.first <= slot)
      found = &range;
  return *found;
}

LiveBytes::Range LiveBytes::getGrown(const Buffer &buffer, int64_t from,
                                     int64_t slot) {
  if (buffer.ranges.size() == 1)
    return {std::min(buffer.ranges.front().first, slot),
            std::max(buffer.ranges.front().last, slot)};
  auto getGap = [&](const Range &range) {
    return std::max({int64_t{0}, range.first - slot, from - range.last});
  };
  const Range &nearest =
      *llvm::min_element(buffer.ranges, [&](const Range &a, const Range &b) {
        return getGap(a) < getGap(b);
      });
  return {std::min(nearest.first, from), std::max(nearest.last, slot)};
}

bool LiveBytes::growTo(ArrayRef<Value> bases, int64_t from, int64_t slot) {
  SmallVector<std::tuple<int64_t, int64_t, int64_t>> growths;
  SmallVector<std::pair<Buffer *, Range>> grown;
  bool fits = true;
  for (Value base : bases) {
    auto found = buffers.find(base);
    if (found == buffers.end())
      continue;
    Buffer &buffer = found->second;
    Range all = getGrown(buffer, from, slot);
    grown.push_back({&buffer, all});
    auto take = [&](int64_t begin, int64_t end) {
      if (begin >= end)
        return;
      fits &= findAbove(begin, end, bound - buffer.bytes) == end;
      add(begin, end, buffer.bytes);
      growths.push_back({begin, end, buffer.bytes});
    };
    int64_t next = all.first;
    for (const Range &range : buffer.ranges)
      if (range.first <= all.last && range.last >= all.first) {
        take(next, range.first);
        next = range.last + 1;
      }
    take(next, all.last + 1);
  }
  if (!fits) {
    for (auto [begin, end, bytes] : growths)
      add(begin, end, -bytes);
    return false;
  }
  for (auto &[buffer, all] : grown) {
    SmallVector<Range, 1> &ranges = buffer->ranges;
    auto *first = llvm::find_if(ranges, [all = all](const Range &range) {
      return range.last + 1 >= all.first;
    });
    auto *last = first;
    for (; last != ranges.end() && last->first <= all.last + 1; ++last) {
      all.first = std::min(all.first, last->first);
      all.last = std::max(all.last, last->last);
    }
    *first = all;
    ranges.erase(first + 1, last);
  }
  return true;
}

int64_t LiveBytes::getFarthest(ArrayRef<Value> bases, int64_t from,
                               int64_t slot) const {
  // What two ranges add together is more than either does, so all of them are
  // counted from where the first one ends.
  int64_t begin = slot + 1, bytes = 0;
  for (Value base : bases)
    if (auto found = buffers.find(base); found != buffers.end()) {
      const Buffer &buffer = found->second;
      int64_t last = findRange(buffer, from).last;
      if (last >= slot)
        continue;
      begin = std::min(begin, last + 1);
      bytes += buffer.bytes;
    }
  begin = std::max(begin, from + 1);
  if (begin > slot)
    return slot;
  return findAbove(begin, slot + 1, bound - bytes) - 1;
}

bool LiveBytes::exceeds(int64_t slot) const {
  return findAbove(slot, slot + 1, bound) == slot;
}

int64_t LiveBytes::getEnd(ArrayRef<Value> bases, int64_t slot) const {
  int64_t end = numSlots;
  for (Value base : bases)
    if (auto found = buffers.find(base); found != buffers.end())
      end = std::min(end, findRange(found->second, slot).last);
  return end;
}

void LiveBytes::add(int64_t begin, int64_t end, int64_t bytes) {
  if (begin < end)
    add(1, 0, numSlots, begin, end, bytes);
}

void LiveBytes::add(int64_t node, int64_t low, int64_t high, int64_t begin,
                    int64_t end, int64_t bytes) {
  if (end <= low || high <= begin)
    return;
  if (begin <= low && high <= end) {
    largest[node] += bytes;
    added[node] += bytes;
    return;
  }
  int64_t middle = (low + high) / 2;
  add(2 * node, low, middle, begin, end, bytes);
  add(2 * node + 1, middle, high, begin, end, bytes);
  largest[node] =
      std::max(largest[2 * node], largest[2 * node + 1]) + added[node];
}

int64_t LiveBytes::findAbove(int64_t begin, int64_t end, int64_t limit) const {
  return begin < end ? findAbove(1, 0, numSlots, begin, end, limit) : end;
}

int64_t LiveBytes::findAbove(int64_t node, int64_t low, int64_t high,
                             int64_t begin, int64_t end, int64_t limit) const {
  if (end <= low || high <= begin || largest[node] <= limit)
    return end;
  if (high - low == 1)
    return low;
  int64_t middle = (low + high) / 2;
  limit -= added[node];
  int64_t found = findAbove(2 * node, low, middle, begin, end, limit);
  if (found < end)
    return found;
  return findAbove(2 * node + 1, middle, high, begin, end, limit);
}
