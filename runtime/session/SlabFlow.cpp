//===- SlabFlow.cpp - Slabs that all processes fill -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlabFlow.h"

#include <algorithm>

using namespace optrt;

static constexpr std::size_t kDepth = SlabSignals::kDepth;

std::vector<std::size_t> SlabFlow::regionBytes(const CheckpointPieces &pieces,
                                               std::span<const PieceList> lists,
                                               Keeps keeps) {
  std::vector<std::size_t> bytes;
  for (const PieceList &list : lists) {
    std::size_t elements = numElements(pieces, list);
    if (keeps == Keeps::SomeSlabs && elements > 0)
      elements = kDepth * std::size_t(kSlabElements);
    bytes.push_back(SlabSignals::bytes(lists.size()) +
                    elements * sizeof(float));
  }
  return bytes;
}

SlabFlow::SlabFlow(ShardExchange &exchange, const PieceSlabs &slabs,
                   const std::vector<PieceList> &lists, SharedRegions &regions,
                   Keeps keeps)
    : exchange(exchange), regions(regions), keepsAll(keeps == Keeps::All),
      processes(exchange.numProcesses()), here(exchange.process()),
      signals(regions, processes, here), rounds(slabs, lists),
      offsets(lists.size()) {}

std::span<float> SlabFlow::kept() { return signals.elements(here); }

std::span<float> SlabFlow::slabOf(int process) {
  const std::size_t count = rounds.countOf(process);
  if (count == 0)
    return {};
  return keepsAll ? signals.elements(process).subspan(offsets[process], count)
                  : signals.slab(process, round, count);
}

bool SlabFlow::advance(Status &failure) {
  for (; shift != processes; ++shift) {
    const int to = (here + shift) % processes;
    if (!signals.areShared(to) || rounds.countOf(to) == 0)
      continue;
    if (!keepsAll &&
        round >= signals.done(to).load(std::memory_order_acquire) + kDepth)
      return false;
    keepFirst(failure, exchange.give(rounds.slabs()[to], to, slabOf(to)));
    signals.doneBy(to, here).store(round + 1, std::memory_order_release);
    signals.ring(to);
    ++shift;
    return true;
  }
  const bool takes = !keepsAll && rounds.countOf(here) > 0;
  if (takes && own.size() == kDepth)
    return false;
  keepFirst(failure, exchange.collect(rounds.slabs(), slabOf(here),
                                      [&](int from, int to) {
                                        return regions.areShared(from, to);
                                      }));
  if (takes)
    own.push_back({rounds.pieceOf(here), rounds.countOf(here)});
  for (int process = 0; process != processes; ++process)
    offsets[process] += rounds.countOf(process);
  rounds.advance();
  ++round;
  shift = 1;
  return true;
}

bool SlabFlow::isFilled() {
  for (int process = 0; process != processes; ++process)
    if (process != here && signals.areShared(process) &&
        signals.doneBy(here, process).load(std::memory_order_acquire) <= taken)
      return false;
  return true;
}

Status SlabFlow::run(const Take &take) {
  signals.enter();
  if (!keepsAll)
    regions.populate();
  Status failure;
  bool looksAgain = false;
  uint32_t bell = 0;
  while (!rounds.done() || !own.empty()) {
    if (!own.empty() && isFilled()) {
      if (failure.ok())
        failure = take(own.front().piece,
                       signals.slab(here, taken, own.front().count));
      own.pop_front();
      signals.done(here).store(++taken, std::memory_order_release);
      signals.ringAll();
    } else if (rounds.done() || !advance(failure)) {
      if (looksAgain) {
        OPTRT_RETURN_IF_ERROR(signals.sleep(bell));
        looksAgain = false;
        continue;
      }
      // What rings from now on wakes it; what has rung shows in one more look.
      bell = signals.awaitRing();
      looksAgain = true;
      continue;
    }
    looksAgain = false;
  }
  signals.leave();
  return failure;
}
