//===- Exchange.h - Every rank sends to every other -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank of a communicator sends a part to every other, in one round and
// without anybody in between: an element passes one link out and one in, which
// is the least, and nobody waits for a third rank. The parts go in segments, so
// that an arrived one is worked on while the rest is under way.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_EXCHANGE_H
#define OPTIMUS_RUNTIME_CCL_MPI_EXCHANGE_H

#include "../CollectiveOperands.h"
#include "../ScratchBuffer.h"
#include "Mpi.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace optrt {

/// The elements of what moves: how many bytes one has, and MPI's type of as
/// many.
struct ElementUnit {
  int64_t bytes = sizeof(float);
  MPI_Datatype type = MPI_FLOAT;
};

/// A rank's side of an exchange.
class Exchange {
public:
  /// Elements of the places that segments take on their way.
  struct Room {
    int64_t outgoing = 0, incoming = 0;
  };
  /// Among `size` ranks, where the longest part has so many elements; with
  /// `hasPlace`, what comes is received where it belongs.
  static Room scratchFor(int size, int64_t longest, int64_t segmentLength,
                         bool hasPlace);

  struct Plan {
    MPI_Comm comm = MPI_COMM_NULL;
    int size = 1, index = 0, tag = 0;
    ElementUnit unit;
    int64_t segmentLength = 1; ///< elements of all segments but the last
    /// Elements to a peer, and from it.
    std::function<int64_t(int peer)> sends, receives;
    /// Where elements [begin, begin + length) of what goes to `peer` are: in
    /// memory that stays as it is while the exchange lasts, or packed into
    /// `slot`. Null: they are not there yet, and it is asked again.
    std::function<const std::byte *(int peer, int64_t begin, int64_t length,
                                    std::byte *slot)>
        outgoing;
    /// Where what comes from `peer` is received from `begin` on. Without it,
    /// the next segments take the same place.
    std::function<std::byte *(int peer, int64_t begin)> place;
    /// Called for a segment at `data`.
    std::function<void(int peer, int64_t begin, int64_t length,
                       const std::byte *data)>
        arrived;
  };

  Status begin(Plan newPlan);

  /// Does what can be done without waiting. Sets `moved` if that was anything.
  Status advance(bool &moved);
  bool isDone() const { return sendsLeft == 0 && receivesLeft == 0; }

private:
  /// What comes from a peer: `next` is the first segment that has no request.
  struct Source {
    int peer;
    int64_t count, next;
  };

  int64_t segmentsOf(int64_t count) const;
  int lengthOf(int64_t count, int64_t segment) const;
  Source &sourceOf(int request);
  std::byte *placeOf(int request);
  Status postSends(bool &moved);
  /// For the next segment of the request's source, if there is one.
  Status postReceive(int request);

  Plan plan;
  std::vector<Source> sources;
  /// Peers and segments in the order in which they are sent.
  std::vector<std::pair<int, int64_t>> sending;
  std::size_t nextSend = 0;
  /// Segments that are not yet sent, or received and worked on.
  int64_t sendsLeft = 0, receivesLeft = 0;
  std::vector<MPI_Request> requests; ///< of sends, then of each source
  std::vector<int64_t> segments;     ///< which a request is for
  std::vector<int> completed;        ///< numbers of requests
  /// Places of segments under way, `ringSlot` bytes for each.
  ScratchBuffer outgoingRing, incomingRing;
  int64_t ringSlot = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_EXCHANGE_H
