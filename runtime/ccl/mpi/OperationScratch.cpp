//===- OperationScratch.cpp - What collectives over MPI keep --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperationScratch.h"

#include "Pipeline.h"

#include <algorithm>
#include <climits>

using namespace optrt;

/// Elements of a segment: short enough that the chain fills soon, long enough
/// for few messages.
static int64_t segmentLength(int64_t count) {
  return std::clamp<int64_t>(count / 64, 1 << 13, 1 << 16);
}

int64_t optrt::chainSegment(int32_t kind, int64_t count, int ranks) {
  // Between two ranks there is nothing to hand on.
  return kind == OPTRT_BROADCAST && ranks == 2
             ? std::min<int64_t>(count, INT_MAX)
             : segmentLength(count);
}

bool optrt::isInOneRound(const optrt_collective_desc &desc) {
  return desc.kind != OPTRT_REDUCE_SCATTER &&
         desc.outer * desc.inner <= kOneRoundElements;
}

bool optrt::isAlongChain(const optrt_collective_desc &desc) {
  return desc.outer * desc.inner >= kChainElements && desc.type == OPTRT_F32;
}

static OperationScratch scratchOfChain(const Members &members,
                                       const optrt_collective_desc &desc) {
  const int64_t count = desc.outer * desc.inner;
  const int64_t segment = chainSegment(desc.kind, count, members.size);
  const int64_t ring =
      std::min(Pipeline::kWindow, (count + segment - 1) / segment) * segment;
  OperationScratch room;
  if (desc.kind == OPTRT_REDUCE) {
    room.received = ring;
    if (members.index == desc.root && members.index != members.size - 1)
      room.packed = ring;
  } else if (!shapeOf(desc).isDense(members.index == desc.root ? desc.src_ld
                                                               : desc.dst_ld)) {
    room.received = ring;
  }
  return room;
}

OperationScratch optrt::scratchFor(const Members &members,
                                   const optrt_collective_desc &desc) {
  const int n = members.size;
  const int64_t count = desc.outer * desc.inner;
  if (count == 0 || n == 1)
    return {};
  const bool isLong = count >= kChainElements;
  if (desc.kind == OPTRT_BROADCAST)
    return isLong && members.chainBroadcast ? scratchOfChain(members, desc)
                                            : OperationScratch();
  if (desc.kind == OPTRT_REDUCE && isAlongChain(desc))
    return scratchOfChain(members, desc);
  OperationScratch room;
  if (desc.kind == OPTRT_ALL_GATHER) {
    room.packed = shapeOf(desc).isDense(desc.src_ld) ? 0 : count;
    room.exchange =
        Exchange::scratchFor(n, count, kExchangeSegment, desc.outer == 1);
    return room;
  }
  // Each rank reduces a part of all that ranks bring.
  const bool hasParts =
      desc.kind != OPTRT_REDUCE_SCATTER && !isInOneRound(desc);
  const int64_t longest = hasParts ? (count + n - 1) / n : count;
  room.packed = longest;
  room.received = n * longest;
  room.exchange = Exchange::scratchFor(n, longest, kExchangeSegment, true);
  if (hasParts)
    room.handing = Exchange::scratchFor(n, longest, kExchangeSegment, false);
  return room;
}
