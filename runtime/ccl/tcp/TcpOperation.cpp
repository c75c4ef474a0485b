//===- TcpOperation.cpp - A collective in flight over TCP -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpOperation.h"

#include "../RankOrderReduction.h"
#include "optimus-support/ElementType.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

using namespace optrt;

bool TcpOperation::isSmall() const {
  return optimus_support::isSmallCollective(shapeOf(desc));
}

/// What a member reduces, or hands on.
TcpOperation::Part TcpOperation::partOf(int member) const {
  if (desc.kind == OPTRT_REDUCE_SCATTER)
    return {0, count()};
  if (isSmall())
    return {0, wantsResult(member) ? count() : 0};
  const int64_t n = members->size();
  const int64_t begin = count() * member / n;
  return {begin, count() * (member + 1) / n - begin};
}

void TcpOperation::begin(const TcpMembers &newMembers, uint64_t sequence,
                         CommandId newId, const optrt_collective_desc &newDesc,
                         const void *newSrc, void *newDst) {
  members = &newMembers;
  const int index = members->index, n = members->size();
  started = {members->ranks[index], newId, newDesc};
  bind(newDesc, newSrc, newDst);
  header = {sequence, 0, started};
  streams.resize(n);
  exchangesLeft = 0;
  done = count() == 0 || n == 1;
  bool gives = n == 1 || (desc.kind == OPTRT_BROADCAST && index == desc.root);
  if (gives && dst && dst != src && count() != 0)
    copyToOwn(dst);
  if (done) {
    doneAt = Clock::now();
    return;
  }
  openExchange();
  if (desc.kind == OPTRT_BROADCAST)
    planBroadcast();
  else if (desc.kind == OPTRT_ALL_GATHER)
    planAllGather();
  else
    planReduction();
}

void TcpOperation::openExchange() {
  ++header.exchange;
  for (Stream &stream : streams) {
    stream.isHeard = false;
    stream.out.clear();
    stream.in.clear();
  }
}

void TcpOperation::send(int member, const std::byte *data, int64_t elements) {
  if (member == members->index || elements == 0)
    return;
  streams[member].out = {
      {reinterpret_cast<const std::byte *>(&header), sizeof(header)},
      {data, static_cast<std::size_t>(bytes(elements))}};
}

void TcpOperation::receive(int member, std::byte *data, int64_t elements) {
  if (member == members->index || elements == 0)
    return;
  Stream &stream = streams[member];
  stream.in = {
      {reinterpret_cast<std::byte *>(&stream.heard), sizeof(stream.heard)},
      {data, static_cast<std::size_t>(bytes(elements))}};
}

std::byte *TcpOperation::wholeResult() {
  return isDense(desc.dst_ld) ? dst : packed.reserve(bytes(count()));
}

void TcpOperation::planBroadcast() {
  const int index = members->index, n = members->size();
  exchangesLeft = isSmall() ? 1 : 2;
  if (index != desc.root) {
    const Part mine = isSmall() ? Part{0, count()} : partOf(index);
    receive(desc.root, wholeResult() + bytes(mine.begin), mine.length);
    return;
  }
  const std::byte *whole = src;
  if (!isDense(desc.src_ld)) {
    pack(packed.reserve(bytes(count())), src, desc.src_ld, 0, count());
    whole = packed.data();
  }
  for (int member = 0; member != n; ++member) {
    const Part part = isSmall() ? Part{0, count()} : partOf(member);
    send(member, whole + bytes(part.begin), part.length);
  }
}

void TcpOperation::planAllGather() {
  const int index = members->index, n = members->size();
  exchangesLeft = 1;
  slotLength = count();
  auto block = [&](int member) { return dst + bytes(member * desc.inner); };
  copyToOwn(block(index));
  const std::byte *own = src;
  if (!isDense(desc.src_ld)) {
    pack(packed.reserve(bytes(count())), src, desc.src_ld, 0, count());
    own = packed.data();
  }
  if (desc.outer != 1)
    slots.reserve(bytes(n * count()));
  for (int member = 0; member != n; ++member) {
    send(member, own, count());
    receive(member, desc.outer == 1 ? block(member) : slotOf(member), count());
  }
}

void TcpOperation::planReduction() {
  const int index = members->index, n = members->size();
  const bool scatters = desc.kind == OPTRT_REDUCE_SCATTER;
  exchangesLeft = scatters || isSmall() ? 1 : 2;
  const Part mine = partOf(index);
  slotLength = mine.length;
  slots.reserve(bytes(n * slotLength));
  reduced.reserve(bytes(slotLength));
  // Where what a member reduces begins in the source.
  auto from = [&](int member) {
    return src + (scatters ? bytes(member * desc.inner) : 0);
  };
  pack(slotOf(index), from(index), desc.src_ld, mine.begin, mine.length);
  const bool isStraight = scatters ? desc.outer == 1 : isDense(desc.src_ld);
  if (!isStraight)
    packed.reserve(bytes(scatters ? n * count() : count()));
  for (int member = 0; member != n; ++member) {
    const Part part = partOf(member);
    const std::byte *data = from(member) + bytes(part.begin);
    if (!isStraight && member != index) {
      std::byte *to =
          packed.data() + bytes(scatters ? member * count() : part.begin);
      pack(to, from(member), desc.src_ld, part.begin, part.length);
      data = to;
    }
    send(member, data, part.length);
    receive(member, slotOf(member), mine.length);
  }
}

void TcpOperation::reduce() {
  withElement(desc.type, [&](auto element) {
    using T = decltype(element);
    for (int64_t begin = 0; begin < slotLength; begin += kReductionBlock)
      reduceBlock(
          desc.reduction, members->size(),
          [&](int member) {
            return reinterpret_cast<const T *>(slotOf(member)) + begin;
          },
          reinterpret_cast<T *>(reduced.data()) + begin,
          std::min<int64_t>(kReductionBlock, slotLength - begin));
  });
}

/// The second exchange: each sends its part of the result.
void TcpOperation::handOn() {
  const int index = members->index, n = members->size();
  const Part mine = partOf(index);
  const bool isBroadcast = desc.kind == OPTRT_BROADCAST;
  const bool isRoot = index == desc.root;
  // All sent data has arrived, so that a source in place may be written.
  const std::byte *own = reduced.data();
  if (isBroadcast)
    own =
        (isRoot ? isDense(desc.src_ld) ? src : packed.data() : wholeResult()) +
        bytes(mine.begin);
  auto wants = [&](int member) {
    return isBroadcast ? member != desc.root : wantsResult(member);
  };
  std::byte *whole = wants(index) ? wholeResult() : nullptr;
  for (int member = 0; member != n; ++member) {
    const Part part = partOf(member);
    if (wants(member))
      send(member, own, mine.length);
    if (whole)
      receive(member, whole + bytes(part.begin), part.length);
  }
  if (whole && !isBroadcast)
    std::memcpy(whole + bytes(mine.begin), own, bytes(mine.length));
}

/// The last exchange is over: what did not arrive where it belongs goes there.
void TcpOperation::finish() {
  const int index = members->index, n = members->size();
  switch (desc.kind) {
  case OPTRT_ALL_GATHER:
    for (int member = 0; member != n && desc.outer != 1; ++member)
      if (member != index)
        unpack(dst + bytes(member * desc.inner), desc.dst_ld, slotOf(member), 0,
               count());
    break;
  case OPTRT_BROADCAST:
    if (index != desc.root && !isDense(desc.dst_ld))
      unpack(dst, desc.dst_ld, packed.data(), 0, count());
    break;
  default:
    if (!wantsResult(index))
      break;
    if (desc.kind == OPTRT_REDUCE_SCATTER || isSmall())
      unpack(dst, desc.dst_ld, reduced.data(), 0, count());
    else if (!isDense(desc.dst_ld))
      unpack(dst, desc.dst_ld, packed.data(), 0, count());
  }
  done = true;
  doneAt = Clock::now();
}

Status TcpOperation::isGone(int member) const {
  return unavailable(concat("rank ", members->ranks[member],
                            " ended before this rank was done with it"));
}

Status TcpOperation::sendSomeTo(int member) {
  std::vector<Outgoing> &out = streams[member].out;
  while (!out.empty()) {
    std::ptrdiff_t sent =
        sendSome(members->sockets[member], out[0].data, out[0].bytes);
    if (sent < 0)
      return isGone(member);
    if (sent == 0)
      break;
    out[0].data += sent;
    out[0].bytes -= sent;
    if (out[0].bytes == 0)
      out.erase(out.begin());
  }
  return okStatus();
}

Status TcpOperation::checkHeader(const Header &heard) const {
  static_assert(std::is_trivially_copyable_v<Header>,
                "it is sent as its bytes: all ranks run one program");
  OPTRT_RETURN_IF_ERROR(
      checkAgreement(*members->control, started, heard.started));
  if (heard.sequence == header.sequence && heard.exchange == header.exchange)
    return okStatus();
  return internal(concat("rank ", heard.started.rank, " sends exchange ",
                         heard.exchange, " of collective ", heard.sequence,
                         " where rank ", started.rank, " expects exchange ",
                         header.exchange, " of ", header.sequence));
}

Status TcpOperation::receiveSomeFrom(int member) {
  Stream &stream = streams[member];
  while (!stream.in.empty()) {
    Incoming &next = stream.in[0];
    std::ptrdiff_t got =
        receiveSome(members->sockets[member], next.data, next.bytes);
    if (got < 0)
      return isGone(member);
    if (got == 0)
      break;
    next.data += got;
    next.bytes -= got;
    if (next.bytes != 0)
      continue;
    stream.in.erase(stream.in.begin());
    if (!std::exchange(stream.isHeard, true))
      OPTRT_RETURN_IF_ERROR(checkHeader(stream.heard));
  }
  return okStatus();
}

Status TcpOperation::advance() {
  while (!done) {
    bool isOver = true;
    for (int member = 0; member != members->size(); ++member) {
      OPTRT_RETURN_IF_ERROR(sendSomeTo(member));
      OPTRT_RETURN_IF_ERROR(receiveSomeFrom(member));
      isOver = isOver && !sendsTo(member) && !receivesFrom(member);
    }
    if (!isOver)
      return okStatus();
    const bool reduces =
        desc.kind != OPTRT_BROADCAST && desc.kind != OPTRT_ALL_GATHER;
    if (reduces && header.exchange == 1)
      reduce();
    if (--exchangesLeft == 0) {
      finish();
    } else {
      openExchange();
      handOn();
    }
  }
  return okStatus();
}
