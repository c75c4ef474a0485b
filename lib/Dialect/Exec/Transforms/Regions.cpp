//===- Regions.cpp - Which memory accesses touch ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/Regions.h"

#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::exec;

bool MemoryRegion::mayOverlap(const MemoryRegion &other) const {
  if (base != other.base || begin >= other.getEnd() || other.begin >= getEnd())
    return false;
  int64_t pitch = rows > 1 ? ld : other.ld;
  if ((rows == 1 && other.rows == 1) || (other.rows > 1 && other.ld != pitch))
    return true;
  // Columns modulo the pitch: [0, width) against [distance, distance + other).
  int64_t distance = other.begin - begin;
  // Mostly of one matrix: a division would be half of the function's time.
  if (distance <= -pitch || distance >= pitch)
    distance %= pitch;
  if (distance < 0)
    distance += pitch;
  return distance < width || distance + other.width > pitch;
}

bool MemoryRegion::contains(const MemoryRegion &other) const {
  if (base != other.base)
    return false;
  if (isStretch())
    return begin <= other.begin && other.getEnd() <= getEnd();
  return begin == other.begin && ld == other.ld && width >= other.width &&
         rows >= other.rows && other.rows > 1;
}

/// All of a buffer, as one stretch without a base.
static MemoryRegion getWhole(Value buffer) {
  return MemoryRegion::stretch(Value(), 0, getBufferBytes(buffer));
}

/// Resolves the views that make `buffer`. A view that begins elsewhere on each
/// rank may be anywhere in its base.
static void collectRegions(Value buffer, MemoryRegion region,
                           SmallVectorImpl<MemoryRegion> &regions) {
  if (auto view = buffer.getDefiningOp<BufferViewOpInterface>()) {
    RankNumber offset = view.getByteOffset();
    region.begin += offset.constant;
    for (Value viewed : view.getViewedBuffers())
      collectRegions(viewed, offset.axes ? getWhole(viewed) : region, regions);
    return;
  }
  if (auto slot = buffer.getDefiningOp<ArenaSlotOp>()) {
    region.begin += slot.getOffset();
    region.base = slot.getArena();
  } else {
    region.base = buffer;
  }
  regions.push_back(region);
}

MemoryRegions mlir::exec::getRegions(Value buffer) {
  MemoryRegions regions;
  collectRegions(buffer, getWhole(buffer), regions);
  return regions;
}

MemoryRegions mlir::exec::getRegions(const Access &access) {
  if (access.part)
    return getRegions(access.part);
  Value buffer = access.operand->get();
  if (access.cols == 0)
    return getRegions(buffer);
  auto type = cast<MemRefType>(buffer.getType());
  int64_t size = optimus::getElementBytes(type);
  MemoryRegion region{Value(), 0, access.rows, access.cols * size,
                      access.ld * size};
  if (region.rows == 1 || region.width == region.ld)
    region = {Value(), 0, 1, region.getEnd(), region.getEnd()};
  MemoryRegions regions;
  collectRegions(buffer, region, regions);
  return regions;
}

CommandRegions mlir::exec::getRegions(CommandOpInterface command) {
  CommandRegions regions;
  for (const Access &access : command.getAccesses())
    llvm::append_range(access.writes ? regions.written : regions.read,
                       getRegions(access));
  return regions;
}

bool mlir::exec::mayOverlap(ArrayRef<MemoryRegion> a,
                            ArrayRef<MemoryRegion> b) {
  return llvm::any_of(a, [&](const MemoryRegion &region) {
    return llvm::any_of(
        b, [&](const MemoryRegion &other) { return region.mayOverlap(other); });
  });
}
