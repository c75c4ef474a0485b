//===- HostStaging.cpp - Collectives by way of the host -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostStaging.h"

#include "optimus-runtime/Collectives.h"
#include "optimus-support/ElementType.h"

#include <algorithm>

namespace optrt {

StatusOr<HostStaging::Room *> HostStaging::take(Queue queue, int64_t bytes) {
  Room *best = nullptr;
  for (Room &room : rooms)
    if (!room.isTaken && room.memory.size() >= bytes &&
        (!best || room.memory.size() < best->memory.size()))
      best = &room;
  if (!best) {
    OPTRT_ASSIGN_OR_RETURN(
        DeviceMemory memory,
        device.allocateOnHost(bytes, "a collective's way through the host"));
    best = &rooms.emplace_back();
    best->memory = std::move(memory);
  }
  if (best->lastUse)
    OPTRT_RETURN_IF_ERROR(device.await(queue, *best->lastUse));
  best->lastUse.reset();
  best->isTaken = true;
  return best;
}

StatusOr<const HostStaging::Staged *>
HostStaging::begin(Queue queue, CommandId id, const optrt_collective_desc &desc,
                   Member member, const void *src, void *dst) {
  using optimus_support::ElementType;
  const int64_t element = optimus_support::elementBytes(ElementType(desc.type));
  const bool reads = hasSource(desc.kind, member.isRoot),
             writes = hasDestination(desc.kind, member.isRoot);
  const int64_t srcColumns =
                    (readsBlocks(desc.kind) ? member.ranks : 1) * desc.inner,
                dstColumns =
                    (writesBlocks(desc.kind) ? member.ranks : 1) * desc.inner;
  const bool isInPlace = reads && writes && src == dst;

  UnderWay one{id, {desc, nullptr, nullptr}, nullptr, nullptr, nullptr, {}};
  if (reads) {
    OPTRT_ASSIGN_OR_RETURN(one.from,
                           take(queue, desc.outer * srcColumns * element));
    one.staged.from = one.from->memory.data();
    one.staged.desc.src_ld = srcColumns;
    OPTRT_RETURN_IF_ERROR(device.copy(
        queue, {desc.outer, srcColumns, desc.src_ld, srcColumns, element}, src,
        one.staged.from));
  }
  if (writes) {
    one.to = one.from;
    if (!isInPlace) {
      OPTRT_ASSIGN_OR_RETURN(one.to,
                             take(queue, desc.outer * dstColumns * element));
    }
    one.staged.to = one.to->memory.data();
    one.staged.desc.dst_ld = dstColumns;
    // A root's own data does not move.
    if (!isInPlace || desc.kind != OPTRT_BROADCAST)
      one.result = dst;
    one.back = {desc.outer, dstColumns, dstColumns, desc.dst_ld, element};
  }
  return &underWay.emplace_back(std::move(one)).staged;
}

Status HostStaging::finish(Queue queue, CommandId id) {
  auto one =
      std::find_if(underWay.begin(), underWay.end(),
                   [&](const UnderWay &other) { return other.id == id; });
  if (one == underWay.end())
    return okStatus();
  if (one->result)
    OPTRT_RETURN_IF_ERROR(
        device.copy(queue, one->back, one->staged.to, one->result));
  if (one->result)
    one->to->lastUse = device.record(queue);
  for (Room *room : {one->from, one->to})
    if (room)
      room->isTaken = false;
  underWay.erase(one);
  return okStatus();
}

void HostStaging::restart() {
  for (Room &room : rooms)
    room.lastUse.reset();
}

} // namespace optrt
