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
  auto [found, isNew] =
      ranges.try_emplace(base, Range{slot, slot, getPlacedBytes(base)});
  found->second.first = std::min(found->second.first, slot);
  found->second.last = std::max(found->second.last, slot);
}

void LiveBytes::seal() {
  for (auto &[base, range] : ranges)
    add(range.first, range.last + 1, range.bytes);
}

bool LiveBytes::growTo(ArrayRef<Value> bases, int64_t slot) {
  SmallVector<std::tuple<int64_t, int64_t, int64_t>> growths;
  bool fits = true;
  for (Value base : bases) {
    auto found = ranges.find(base);
    if (found == ranges.end())
      continue;
    auto [first, last, bytes] = found->second;
    if (slot >= first && slot <= last)
      continue;
    int64_t begin = slot < first ? slot : last + 1;
    int64_t end = slot < first ? first : slot + 1;
    fits &= findAbove(begin, end, bound - bytes) == end;
    add(begin, end, bytes);
    growths.push_back({begin, end, bytes});
  }
  if (!fits) {
    for (auto [begin, end, bytes] : growths)
      add(begin, end, -bytes);
    return false;
  }
  for (Value base : bases)
    if (auto found = ranges.find(base); found != ranges.end()) {
      found->second.first = std::min(found->second.first, slot);
      found->second.last = std::max(found->second.last, slot);
    }
  return true;
}

int64_t LiveBytes::getFarthest(ArrayRef<Value> bases, int64_t from,
                               int64_t slot) const {
  // What two ranges add together is more than either does, so all of them are
  // counted from where the first one ends.
  int64_t begin = slot + 1, bytes = 0;
  for (Value base : bases)
    if (auto found = ranges.find(base);
        found != ranges.end() && found->second.last < slot) {
      begin = std::min(begin, found->second.last + 1);
      bytes += found->second.bytes;
    }
  begin = std::max(begin, from + 1);
  if (begin > slot)
    return slot;
  return findAbove(begin, slot + 1, bound - bytes) - 1;
}

bool LiveBytes::exceeds(int64_t slot) const {
  return findAbove(slot, slot + 1, bound) == slot;
}

int64_t LiveBytes::getEnd(ArrayRef<Value> bases) const {
  int64_t end = numSlots;
  for (Value base : bases)
    if (auto found = ranges.find(base); found != ranges.end())
      end = std::min(end, found->second.last);
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
