//===- Operation.cpp - A collective in flight over MPI --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operation.h"

#include "../RankOrderReduction.h"

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstring>

namespace optrt {
namespace {

/// A matrix as an MPI type. `columns` of every row are sent, rows lie `ld`
/// apart.
class MatrixType {
public:
  Status create(int64_t rows, int64_t columns, int64_t ld, ElementUnit unit) {
    OPTIMUS_MPI_CHECK(MPI_Type_vector, static_cast<int>(rows),
                      static_cast<int>(columns), static_cast<int>(ld),
                      unit.type, &type);
    OPTIMUS_MPI_CHECK(MPI_Type_commit, &type);
    return okStatus();
  }
  // MPI keeps a freed type until the operations that use it are complete.
  ~MatrixType() {
    if (type != MPI_DATATYPE_NULL)
      warnOfMpi("MPI_Type_free", MPI_Type_free(&type));
  }
  MatrixType() = default;
  MatrixType(const MatrixType &) = delete;
  MatrixType &operator=(const MatrixType &) = delete;

  operator MPI_Datatype() const { return type; }

private:
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

Status tooLarge() {
  return internal(
      "it moves 2^31 elements or more, which MPI's counts cannot express");
}

} // namespace

Status Operation::begin(const Members &newMembers, int newTag,
                        const optrt_collective_desc &newDesc,
                        const void *newSrc, void *newDst) {
  members = newMembers;
  bind(newDesc, newSrc, newDst);
  unit = desc.type == OPTRT_F32 ? ElementUnit() : ElementUnit{2, MPI_UINT16_T};
  tag = newTag;
  room = scratchFor(members, desc);
  hasResult = handsOn = false;
  done = count() == 0 || members.size == 1;
  bool isRoot = desc.kind == OPTRT_BROADCAST && members.index == desc.root;
  if ((isRoot || members.size == 1) && dst && dst != src)
    copyToOwn(dst);
  if (done)
    return okStatus();
  switch (desc.kind) {
  case OPTRT_BROADCAST:
    return beginBroadcast();
  case OPTRT_ALL_GATHER:
    return beginAllGather();
  case OPTRT_REDUCE:
    if (isAlongChain(desc))
      return beginChainReduce();
  }
  return beginReduction();
}

/// Places of the segments of a pipeline, which take turns in a buffer of so
/// many elements.
std::function<std::byte *(int64_t)>
Operation::placesInRing(ScratchBuffer &buffer, int64_t elements,
                        int64_t segmentLength) const {
  return [ring = buffer.reserve(bytes(elements)),
          length = bytes(segmentLength)](int64_t k) {
    return ring + k % Pipeline::kWindow * length;
  };
}

Status Operation::beginBroadcast() {
  const int n = members.size, index = members.index;
  bool isRoot = index == desc.root;
  std::byte *matrix = isRoot ? const_cast<std::byte *>(src) : dst;
  int64_t ld = isRoot ? desc.src_ld : desc.dst_ld;
  if (count() < kChainElements || !members.chainBroadcast) {
    if (desc.outer * ld > INT_MAX)
      return tooLarge();
    stage = Stage::Library;
    MatrixType type;
    OPTRT_RETURN_IF_ERROR(type.create(desc.outer, desc.inner, ld, unit));
    OPTIMUS_MPI_CHECK(MPI_Ibcast, matrix, 1, type, desc.root, members.comm,
                      &request);
    return okStatus();
  }

  stage = Stage::Chain;
  Pipeline::Plan plan;
  plan.comm = members.comm;
  plan.unit = unit;
  plan.fromTag = plan.toTag = tag;
  if (!isRoot)
    plan.from = (index + n - 1) % n;
  if ((index + 1) % n != desc.root)
    plan.to = (index + 1) % n;
  plan.count = count();
  plan.segmentLength = chainSegment(desc.kind, count(), n);
  if (isDense(ld)) {
    plan.inRing = false;
    plan.place = [matrix, length = bytes(plan.segmentLength)](int64_t k) {
      return matrix + k * length;
    };
    plan.process = [](int64_t, int64_t, std::byte *) { return true; };
  } else {
    plan.place = placesInRing(received, room.received, plan.segmentLength);
    plan.process = [=, this](int64_t begin, int64_t length, std::byte *data) {
      if (isRoot)
        pack(data, matrix, ld, begin, length);
      else
        unpack(matrix, ld, data, begin, length);
      return true;
    };
  }
  chain.begin(std::move(plan));
  return advance();
}

Status Operation::beginChainReduce() {
  const int n = members.size, index = members.index;
  const int last = n - 1;
  stage = Stage::Chain;
  Pipeline::Plan plan;
  plan.comm = members.comm;
  plan.fromTag = tag;
  if (index != 0)
    plan.from = index - 1;
  if (index != last)
    plan.to = index + 1;
  else if (desc.root != last)
    plan.to = desc.root;
  plan.toTag = index == last ? tag + 1 : tag;
  plan.count = count();
  plan.segmentLength = chainSegment(desc.kind, count(), n);
  plan.place = placesInRing(received, room.received, plan.segmentLength);
  bool keeps = index == last && desc.root == last;
  plan.process = [this, keeps](int64_t begin, int64_t length, std::byte *data) {
    if (members.index == 0) {
      pack(data, src, desc.src_ld, begin, length);
      return true;
    }
    // `data` holds the sum of all ranks before this one.
    auto *sums = reinterpret_cast<float *>(data);
    const auto *own = reinterpret_cast<const float *>(src);
    forEachRow(begin, length, desc.inner,
               [&](int64_t row, int64_t column, int64_t at, int64_t some) {
                 accumulate(desc.reduction, sums + at,
                            own + row * desc.src_ld + column, some);
               });
    if (keeps)
      unpack(dst, desc.dst_ld, data, begin, length);
    return true;
  };
  int64_t length = plan.segmentLength;
  chain.begin(std::move(plan));

  hasResult = index == desc.root && index != last;
  if (hasResult) {
    Pipeline::Plan arriving;
    arriving.comm = members.comm;
    arriving.from = last;
    arriving.fromTag = tag + 1;
    arriving.count = count();
    arriving.segmentLength = length;
    arriving.place = placesInRing(packed, room.packed, length);
    // The arriving data contains this rank's part, which was read before, so
    // its place may be overwritten.
    arriving.process = [this](int64_t begin, int64_t some, std::byte *data) {
      unpack(dst, desc.dst_ld, data, begin, some);
      return true;
    };
    result.begin(std::move(arriving));
  }
  return advance();
}

Operation::Part Operation::partOf(int r) const {
  if (desc.kind == OPTRT_REDUCE_SCATTER)
    return {r * desc.inner, 0, count()};
  if (isOneRound())
    return {0, 0, wantsResult(r) ? count() : 0};
  int64_t begin = count() * r / members.size;
  return {0, begin, count() * (r + 1) / members.size - begin};
}

bool Operation::isOneRound() const { return isInOneRound(desc); }

Exchange::Plan Operation::exchangePlan() const {
  Exchange::Plan plan;
  plan.comm = members.comm;
  plan.size = members.size;
  plan.index = members.index;
  plan.tag = tag;
  plan.unit = unit;
  plan.segmentLength = kExchangeSegment;
  return plan;
}

Status Operation::beginAllGather() {
  stage = Stage::Exchange;
  auto block = [this](int r) { return dst + bytes(r * desc.inner); };
  copyToOwn(block(members.index));
  const std::byte *own = src;
  if (!isDense(desc.src_ld)) {
    std::byte *copy = packed.reserve(bytes(room.packed));
    pack(copy, src, desc.src_ld, 0, count());
    own = copy;
  }
  Exchange::Plan plan = exchangePlan();
  plan.sends = plan.receives = [this](int) { return count(); };
  plan.outgoing = [this, own](int, int64_t begin, int64_t, std::byte *) {
    return own + bytes(begin);
  };
  if (desc.outer == 1)
    plan.place = [this, block](int r, int64_t begin) {
      return block(r) + bytes(begin);
    };
  plan.arrived = [this, block](int r, int64_t begin, int64_t length,
                               const std::byte *data) {
    if (desc.outer != 1)
      unpack(block(r), desc.dst_ld, data, begin, length);
  };
  OPTRT_RETURN_IF_ERROR(exchange.begin(std::move(plan)));
  return advance();
}

Status Operation::beginReduction() {
  stage = Stage::Exchange;
  const int index = members.index;
  const Part mine = partOf(index);
  packed.reserve(bytes(room.packed));
  slotLength = isOneRound() ? count() : mine.length;
  received.reserve(bytes(room.received));
  // In one round, this rank's part of the sum also goes to all others; in
  // place, it may not be read from `src` once the result is there.
  std::byte *own = slotOf(index);
  pack(own, src + bytes(mine.offset), desc.src_ld, mine.begin, slotLength);
  Exchange::Plan plan = exchangePlan();
  plan.sends = [this](int r) { return partOf(r).length; };
  plan.receives = [mine](int) { return mine.length; };
  plan.outgoing = [this, own](int r, int64_t begin, int64_t length,
                              std::byte *slot) -> const std::byte * {
    if (isOneRound())
      return own + bytes(begin);
    const Part part = partOf(r);
    pack(slot, src + bytes(part.offset), desc.src_ld, part.begin + begin,
         length);
    return slot;
  };
  plan.place = [this](int r, int64_t begin) {
    return slotOf(r) + bytes(begin);
  };
  missing.assign(mine.length / kExchangeSegment + 1, members.size - 1);
  numReduced = 0;
  plan.arrived = [this](int, int64_t begin, int64_t, const std::byte *) {
    --missing[begin / kExchangeSegment];
    reduceArrived();
  };
  OPTRT_RETURN_IF_ERROR(exchange.begin(std::move(plan)));
  if (desc.kind != OPTRT_REDUCE_SCATTER && !isOneRound())
    OPTRT_RETURN_IF_ERROR(beginHandingOn());
  return advance();
}

/// Each rank sends its part of the result to all, or to the root.
Status Operation::beginHandingOn() {
  const int index = members.index;
  handsOn = true;
  Exchange::Plan plan = exchangePlan();
  plan.tag = tag + 1;
  plan.sends = [this, mine = partOf(index).length](int r) {
    return wantsResult(r) ? mine : 0;
  };
  plan.receives = [this, wants = wantsResult(index)](int r) {
    return wants ? partOf(r).length : 0;
  };
  plan.outgoing = [this](int, int64_t begin, int64_t length, std::byte *) {
    return begin + length <= numReduced ? packed.data() + bytes(begin)
                                        : nullptr;
  };
  // In place, what a receive is posted for would still be read.
  bool straight = isDense(desc.dst_ld) && src != dst;
  if (straight)
    plan.place = [this](int r, int64_t begin) {
      return dst + bytes(partOf(r).begin + begin);
    };
  plan.arrived = [this, straight](int r, int64_t begin, int64_t length,
                                  const std::byte *data) {
    if (!straight)
      unpack(dst, desc.dst_ld, data, partOf(r).begin + begin, length);
  };
  return handing.begin(std::move(plan));
}

/// Reduces the next segments of this rank's part that have arrived from all.
void Operation::reduceArrived() {
  const Part mine = partOf(members.index);
  while (numReduced != mine.length &&
         missing[numReduced / kExchangeSegment] == 0) {
    int64_t length = std::min(kExchangeSegment, mine.length - numReduced);
    std::byte *sum = packed.data() + bytes(numReduced);
    withElement(desc.type, [&](auto element) {
      using T = decltype(element);
      for (int64_t begin = 0; begin < length; begin += kReductionBlock)
        reduceBlock(
            desc.reduction, members.size,
            [&](int r) {
              return reinterpret_cast<const T *>(slotOf(r)) + numReduced +
                     begin;
            },
            reinterpret_cast<T *>(sum) + begin,
            std::min<int64_t>(kReductionBlock, length - begin));
    });
    if (wantsResult(members.index))
      unpack(dst, desc.dst_ld, sum, mine.begin + numReduced, length);
    numReduced += length;
  }
}

Status Operation::advance() {
  if (done)
    return okStatus();
  if (stage == Stage::Library) {
    int complete = 0;
    OPTIMUS_MPI_CHECK(MPI_Test, &request, &complete, MPI_STATUS_IGNORE);
    done = complete;
    return okStatus();
  }
  if (stage == Stage::Chain) {
    OPTRT_RETURN_IF_ERROR(chain.advance());
    if (hasResult)
      OPTRT_RETURN_IF_ERROR(result.advance());
    done = chain.isDone() && (!hasResult || result.isDone());
    return okStatus();
  }
  bool moved = true;
  while (moved) {
    moved = false;
    OPTRT_RETURN_IF_ERROR(exchange.advance(moved));
    if (handsOn)
      OPTRT_RETURN_IF_ERROR(handing.advance(moved));
  }
  done = exchange.isDone() && (!handsOn || handing.isDone());
  return okStatus();
}

} // namespace optrt
