//===- Operation.h - A collective in flight over MPI ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reductions exchange data and add in rank order themselves, so that their
// bits equal the local back-end's:
//
//  broadcast       small, or among ranks of one host: MPI's; large: along the
//                  chain root, root + 1, ...
//  reduce          small: everything to the root; middle, and all narrow
//                  types: each rank reduces a part, the root gathers; large:
//                  along the chain 0, 1, ..., n - 1, each rank adding its own,
//                  and from there to the root
//  all_reduce      small: everything to everybody; else each rank reduces a
//                  part and hands it to all, both at the rate of a link
//  all_gather      every rank sends its own to all others
//  reduce_scatter  every rank sends each other rank the part reduced there
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_OPERATION_H
#define OPTIMUS_RUNTIME_CCL_MPI_OPERATION_H

#include "../ScratchBuffer.h"
#include "Exchange.h"
#include "OperationScratch.h"
#include "Pipeline.h"
#include "optimus-runtime/Collectives.h"

#include <vector>

namespace optrt {

/// One collective of a rank. All calls are made under the back-end's lock.
class Operation : CollectiveOperands {
public:
  /// Posts what can be sent at once. `newTag` tells apart operations that are
  /// in flight on a communicator at the same time, with the number after it.
  Status begin(const Members &newMembers, int newTag,
               const optrt_collective_desc &newDesc, const void *newSrc,
               void *newDst);

  /// Does what can be done without waiting; sets isDone().
  Status advance();
  bool isDone() const { return done; }

private:
  enum class Stage { Library, Chain, Exchange };

  /// What a rank reduces: elements [begin, begin + length) of the matrix that
  /// starts `offset` behind `src`.
  struct Part {
    int64_t offset, begin, length;
  };

  Status beginBroadcast();
  Status beginChainReduce();
  Status beginAllGather();
  Status beginReduction();
  Status beginHandingOn();
  void reduceArrived();
  Exchange::Plan exchangePlan() const;
  Part partOf(int r) const;
  /// Where what rank r adds to this rank's part is.
  std::byte *slotOf(int r) { return received.data() + bytes(r * slotLength); }
  std::function<std::byte *(int64_t)> placesInRing(ScratchBuffer &buffer,
                                                   int64_t elements,
                                                   int64_t segmentLength) const;
  bool isOneRound() const;

  Members members{};
  OperationScratch room;
  ElementUnit unit;
  Stage stage = Stage::Exchange;
  bool done = true;
  int tag = 0;
  MPI_Request request = MPI_REQUEST_NULL; ///< of MPI's own
  /// Along the chain, and, at the root of a reduction, its result.
  Pipeline chain, result;
  bool hasResult = false;
  /// Of what is gathered or reduced, and of the parts of the result.
  Exchange exchange, handing;
  bool handsOn = false;
  std::vector<int> missing; ///< ranks, of each segment of this rank's part
  int64_t numReduced = 0;   ///< elements of it
  int64_t slotLength = 0;
  // Kept between uses: fresh pages are slow.
  ScratchBuffer packed, received;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_OPERATION_H
