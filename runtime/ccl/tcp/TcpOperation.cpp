//===- TcpOperation.cpp - A collective in flight over TCP -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpOperation.h"

#include <type_traits>

using namespace optrt;
using namespace optimus_support;

static CollectivePlan planOver(const TcpMembers &members,
                               const optrt_collective_desc &desc,
                               CollectivePlan former = {}) {
  return planOf(desc, members.index, members.size(),
                shortestRoute(shapeOf(desc)), std::move(former));
}

std::vector<int64_t>
TcpOperation::bufferBytes(const TcpMembers &members,
                          const optrt_collective_desc &desc) {
  return PlanWalk::bufferBytes(planOver(members, desc), kWholeMessages, desc);
}

Status TcpOperation::begin(const TcpMembers &newMembers, uint64_t sequence,
                           CommandId id, const optrt_collective_desc &newDesc,
                           const void *src, void *dst) {
  members = &newMembers;
  header = {sequence, 0, {members->ranks[members->index], id, newDesc}};
  lines.resize(members->size());
  return PlanWalk::begin(planOver(*members, newDesc, std::move(plan)),
                         kWholeMessages, newDesc, src, dst);
}

bool TcpOperation::sharesNoConnectionWith(const TcpOperation &other) const {
  return isMessage(desc.kind) && isMessage(other.desc.kind) &&
         (desc.root != other.desc.root || desc.kind != other.desc.kind);
}

Status TcpOperation::post(const Message &message) {
  const Step &step = stepOf(message);
  Line &line = lines[step.peer];
  const std::size_t bytes = message.elements * elementBytes;
  header.channel = step.channel;
  (step.kind == Step::Send ? line.out : line.in)
      .push_back({message, header, sizeof(Header) + bytes});
  return okStatus();
}

Status TcpOperation::test(std::vector<Message> &ended) {
  for (int member = 0; member != members->size(); ++member) {
    OPTRT_RETURN_IF_ERROR(moveSome(member, /*isOut=*/true, ended));
    OPTRT_RETURN_IF_ERROR(moveSome(member, /*isOut=*/false, ended));
  }
  return okStatus();
}

/// What can be sent to a member, or received from it.
Status TcpOperation::moveSome(int member, bool isOut,
                              std::vector<Message> &ended) {
  std::vector<Moving> &queue = isOut ? lines[member].out : lines[member].in;
  while (!queue.empty()) {
    Moving &first = queue.front();
    const bool isHeader = first.moved < sizeof(Header);
    std::byte *at = isHeader ? reinterpret_cast<std::byte *>(&first.header)
                             : first.message.data - sizeof(Header);
    const std::size_t rest =
        (isHeader ? sizeof(Header) : first.bytes) - first.moved;
    const Socket &socket = members->sockets[member];
    const std::ptrdiff_t some =
        isOut ? sendSome(socket, at + first.moved, rest)
              : receiveSome(socket, at + first.moved, rest);
    if (some < 0)
      return unavailable(concat("rank ", members->ranks[member],
                                " ended before this rank was done with it"));
    if (some == 0)
      break;
    first.moved += some;
    if (!isOut && first.moved == sizeof(Header))
      OPTRT_RETURN_IF_ERROR(
          checkHeader(first.header, stepOf(first.message).channel));
    if (first.moved == first.bytes) {
      ended.push_back(first.message);
      queue.erase(queue.begin());
    }
  }
  return okStatus();
}

Status TcpOperation::checkHeader(const Header &heard, uint64_t channel) const {
  static_assert(std::is_trivially_copyable_v<Header>,
                "it is sent as its bytes: all ranks run one program");
  OPTRT_RETURN_IF_ERROR(
      checkAgreement(*members->control, header.started, heard.started));
  if (heard.sequence == header.sequence && heard.channel == channel)
    return okStatus();
  return internal(concat(
      "rank ", heard.started.rank, " sends message ", heard.channel,
      " of collective ", heard.sequence, " where rank ", header.started.rank,
      " expects message ", channel, " of ", header.sequence));
}
