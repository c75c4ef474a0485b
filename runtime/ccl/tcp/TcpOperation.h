//===- TcpOperation.h - A collective in flight over TCP ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_TCPOPERATION_H
#define OPTIMUS_RUNTIME_CCL_TCP_TCPOPERATION_H

#include "../Agreement.h"
#include "../peers/Socket.h"
#include "../plans/PlanWalk.h"

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

/// One collective of a rank: a plan of whole messages. Those with a member
/// follow each other on its connection.
class TcpOperation final : public PlanWalk {
public:
  /// `sequence` counts the group's collectives, or its messages to or from the
  /// same member.
  Status begin(const TcpMembers &newMembers, uint64_t sequence, CommandId id,
               const optrt_collective_desc &newDesc, const void *src,
               void *dst);

  /// Whether both are messages, to or from other members or in the other
  /// direction: then neither waits for the other.
  bool sharesNoConnectionWith(const TcpOperation &other) const;

  /// Whether it has something to send to a member, or to receive from it.
  bool sendsTo(int member) const { return !lines[member].out.empty(); }
  bool receivesFrom(int member) const { return !lines[member].in.empty(); }

  /// What it keeps for a collective, each buffer for itself.
  static std::vector<int64_t> bufferBytes(const TcpMembers &members,
                                          const optrt_collective_desc &desc);

private:
  /// The first bytes of a message.
  struct Header {
    uint64_t sequence = 0, channel = 0;
    StartedCollective started;
  };
  struct Moving {
    Message message;
    Header header;                ///< that goes out, or has come
    std::size_t bytes, moved = 0; ///< of header and data
  };
  struct Line {
    std::vector<Moving> out, in;
  };

  Status post(const Message &message) override;
  Status test(std::vector<Message> &ended) override;
  Status moveSome(int member, bool isOut, std::vector<Message> &ended);
  Status checkHeader(const Header &heard, uint64_t channel) const;

  const TcpMembers *members = nullptr;
  Header header;           ///< of this rank's messages
  std::vector<Line> lines; ///< by member
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_TCPOPERATION_H
