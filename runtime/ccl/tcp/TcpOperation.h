//===- TcpOperation.h - A collective in flight over TCP ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective is one or two exchanges, in each of which members send a part to
// others and receive one from them, all at once. Reductions add in rank order
// themselves, so that their bits equal the other back-ends':
//
//  broadcast       small: the root sends all to everybody; else it sends each
//                  member a part, and each hands its part to the others
//  all_gather      each sends its block to all others
//  reduce_scatter  each sends each other member the part reduced there
//  all_reduce      small: everything to everybody; else each reduces a part,
//                  and hands it to all others
//  reduce          the same, to the root only
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_TCPOPERATION_H
#define OPTIMUS_RUNTIME_CCL_TCP_TCPOPERATION_H

#include "../Agreement.h"
#include "../CollectiveOperands.h"
#include "../ScratchBuffer.h"
#include "../peers/Socket.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace optrt {

/// The members of a group, and which of them this rank is.
struct TcpMembers {
  int index = 0;
  std::vector<int> ranks;
  std::vector<Socket> sockets; ///< by index; its own is closed
  const ControlPlane *control = nullptr;

  int size() const { return static_cast<int>(ranks.size()); }
};

class TcpOperation : CollectiveOperands {
public:
  using Clock = std::chrono::steady_clock;

  /// `sequence` counts the group's collectives.
  void begin(const TcpMembers &newMembers, uint64_t sequence, CommandId newId,
             const optrt_collective_desc &newDesc, const void *newSrc,
             void *newDst);

  /// Does what can be done without waiting. Unavailable when a member is gone,
  /// Internal when one runs another collective.
  Status advance();
  bool isDone() const { return done; }
  Clock::time_point completedAt() const { return doneAt; }

  /// Whether it has something to send to a member, or to receive from it.
  bool sendsTo(int member) const { return !streams[member].out.empty(); }
  bool receivesFrom(int member) const { return !streams[member].in.empty(); }

private:
  /// The first bytes from a member in an exchange.
  struct Header {
    uint64_t sequence = 0, exchange = 0;
    StartedCollective started;
  };
  struct Outgoing {
    const std::byte *data;
    std::size_t bytes;
  };
  struct Incoming {
    std::byte *data;
    std::size_t bytes;
  };
  /// What one member is still to get and to give: headers and data.
  struct Stream {
    Header heard;
    bool isHeard = false;
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
  };
  /// Elements [begin, begin + length) of a matrix.
  struct Part {
    int64_t begin, length;
  };

  void planBroadcast();
  void planAllGather();
  void planReduction();
  void handOn();
  void finish();
  void reduce();
  void openExchange();
  void send(int member, const std::byte *data, int64_t elements);
  void receive(int member, std::byte *data, int64_t elements);
  Status sendSomeTo(int member);
  Status receiveSomeFrom(int member);
  Status checkHeader(const Header &heard) const;
  Status isGone(int member) const;

  Part partOf(int member) const;
  bool isSmall() const;
  /// Where the whole result is received: the destination, or a buffer.
  std::byte *wholeResult();
  std::byte *slotOf(int member) {
    return slots.data() + bytes(member * slotLength);
  }

  const TcpMembers *members = nullptr;
  StartedCollective started;
  int64_t slotLength = 0;
  Header header;
  int exchangesLeft = 0;
  bool done = true;
  Clock::time_point doneAt;
  std::vector<Stream> streams; ///< by member
  // Kept between uses: fresh pages are slow.
  ScratchBuffer packed, slots, reduced;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_TCPOPERATION_H
