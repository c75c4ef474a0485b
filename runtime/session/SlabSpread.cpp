//===- SlabSpread.cpp - Slabs that all processes take from ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlabSpread.h"

#include <algorithm>
#include <utility>

using namespace optrt;

/// Half of what is written at a time: every process maps all regions of its
/// machine.
static constexpr std::size_t kElements = kSlabElements / 2;

std::vector<std::size_t>
SlabSpread::regionBytes(std::span<const PieceList> lists) {
  std::vector<std::size_t> bytes;
  for (const PieceList &list : lists)
    bytes.push_back(
        SlabSignals::bytes(lists.size()) +
        (list.empty() ? 0 : SlabSignals::kDepth * kElements * sizeof(float)));
  return bytes;
}

SlabSpread::SlabSpread(ShardExchange &exchange, const PieceSlabs &slabs,
                       const std::vector<PieceList> &lists,
                       SharedRegions &regions, ShardExchange::Serves serves)
    : exchange(exchange), regions(regions), serves(std::move(serves)),
      processes(exchange.numProcesses()), here(exchange.process()),
      signals(regions, processes, here, kElements),
      rounds(slabs, lists, kElements) {
  for (int from = 0; from != processes; ++from)
    for (int to = 0; to != processes; ++to)
      sendsMessages |=
          from != to && this->serves(from, to) && !regions.areShared(from, to);
}

bool SlabSpread::hasRoom() {
  for (int other = 0; other != processes; ++other)
    if (isPartner(other) &&
        signals.doneBy(here, other).load(std::memory_order_acquire) +
                SlabSignals::kDepth <=
            round)
      return false;
  return true;
}

bool SlabSpread::copyFrom(int other, Status &failure) {
  if (signals.done(other).load(std::memory_order_acquire) <= round)
    return false;
  keepFirst(failure, exchange.distributeHere(
                         rounds.slabs()[other],
                         signals.slab(other, round, rounds.countOf(other))));
  signals.doneBy(other, here).store(round + 1, std::memory_order_release);
  signals.ring(other);
  return true;
}

Status SlabSpread::waitFor(const std::function<bool()> &isReady) {
  while (!isReady()) {
    const uint32_t bell = signals.awaitRing();
    if (isReady())
      break;
    OPTRT_RETURN_IF_ERROR(signals.sleep(bell));
  }
  return okStatus();
}

Status SlabSpread::run(const Read &read) {
  signals.enter();
  regions.populate();
  Status failure;
  for (; !rounds.done(); rounds.advance(), ++round) {
    std::span<float> own;
    if (const std::size_t count = rounds.countOf(here); count > 0) {
      OPTRT_RETURN_IF_ERROR(waitFor([&] { return hasRoom(); }));
      own = signals.slab(here, round, count);
      read(rounds.pieceOf(here), rounds.beginsPiece(here), own);
      signals.done(here).store(round + 1, std::memory_order_release);
      signals.ringAll();
    }
    keepFirst(failure,
              sendsMessages
                  ? exchange.distribute(rounds.slabs(), own,
                                        [&](int from, int to) {
                                          return serves(from, to) &&
                                                 !regions.areShared(from, to);
                                        })
                  : exchange.distributeHere(rounds.slabs()[here], own));
    std::vector<int> left;
    for (int other = 0; other != processes; ++other)
      if (isPartner(other) && rounds.countOf(other) > 0)
        left.push_back(other);
    while (!left.empty())
      OPTRT_RETURN_IF_ERROR(waitFor([&] {
        return std::erase_if(left, [&](int other) {
                 return copyFrom(other, failure);
               }) > 0;
      }));
  }
  signals.leave();
  return failure;
}
