//===- Exchange.cpp - Every rank sends to every other ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Exchange.h"

#include <algorithm>

namespace optrt {
namespace {

/// Sends under way, to all peers together: few, or what they bring collides on
/// the way into a rank, and all arrive late.
constexpr int kSends = 3;
/// Receives under way from each peer.
constexpr int kReceives = 2;

} // namespace

Exchange::Room Exchange::scratchFor(int size, int64_t longest,
                                    int64_t segmentLength, bool hasPlace) {
  const int64_t slot = std::min(segmentLength, longest);
  return {kSends * slot, hasPlace ? 0 : kReceives * (size - 1) * slot};
}

Status Exchange::begin(Plan newPlan) {
  plan = std::move(newPlan);
  sources.clear();
  sending.clear();
  sendsLeft = receivesLeft = 0;
  int64_t longest = 0; // of all parts
  // Each rank begins with another peer, so that no link has all at once.
  for (int i = 1; i != plan.size; ++i) {
    int to = (plan.index + i) % plan.size;
    int from = (plan.index + plan.size - i) % plan.size;
    int64_t sends = plan.sends(to), receives = plan.receives(from);
    sources.push_back({from, receives, 0});
    receivesLeft += segmentsOf(receives);
    sendsLeft += segmentsOf(sends);
    longest = std::max({longest, sends, receives});
  }
  // By segments rather than by peers: what needs a segment from everybody has
  // the first ones soon.
  for (int64_t s = 0; static_cast<int64_t>(sending.size()) != sendsLeft; ++s)
    for (int i = 1; i != plan.size; ++i) {
      int to = (plan.index + i) % plan.size;
      if (s < segmentsOf(plan.sends(to)))
        sending.push_back({to, s});
    }
  nextSend = 0;
  int receives = kReceives * static_cast<int>(sources.size());
  requests.assign(kSends + receives, MPI_REQUEST_NULL);
  segments.resize(requests.size());
  completed.resize(requests.size());
  ringSlot = std::min(plan.segmentLength, longest) * plan.unit.bytes;
  const Room room =
      scratchFor(plan.size, longest, plan.segmentLength, plan.place != nullptr);
  outgoingRing.reserve(room.outgoing * plan.unit.bytes);
  incomingRing.reserve(room.incoming * plan.unit.bytes);
  for (int i = 0; i != receives; ++i)
    OPTRT_RETURN_IF_ERROR(postReceive(kSends + i));
  return okStatus();
}

int64_t Exchange::segmentsOf(int64_t count) const {
  return (count + plan.segmentLength - 1) / plan.segmentLength;
}

int Exchange::lengthOf(int64_t count, int64_t segment) const {
  return static_cast<int>(
      std::min(plan.segmentLength, count - segment * plan.segmentLength));
}

std::byte *Exchange::placeOf(int request) {
  int64_t segment = segments[request];
  if (plan.place)
    return plan.place(sourceOf(request).peer, segment * plan.segmentLength);
  return incomingRing.data() + (request - kSends) * ringSlot;
}

Exchange::Source &Exchange::sourceOf(int request) {
  return sources[(request - kSends) / kReceives];
}

Status Exchange::advance(bool &moved) {
  if (isDone())
    return okStatus();
  OPTRT_RETURN_IF_ERROR(postSends(moved));
  int count = 0;
  OPTIMUS_MPI_CHECK(MPI_Testsome, static_cast<int>(requests.size()),
                    requests.data(), &count, completed.data(),
                    MPI_STATUSES_IGNORE);
  if (count == MPI_UNDEFINED) // nothing was under way
    return okStatus();
  for (int i = 0; i != count; ++i) {
    moved = true;
    int request = completed[i];
    if (request < kSends) {
      --sendsLeft;
      continue;
    }
    const Source &source = sourceOf(request);
    int64_t segment = segments[request];
    plan.arrived(source.peer, segment * plan.segmentLength,
                 lengthOf(source.count, segment), placeOf(request));
    --receivesLeft;
    OPTRT_RETURN_IF_ERROR(postReceive(request));
  }
  return okStatus();
}

Status Exchange::postSends(bool &moved) {
  for (int request = 0; request != kSends && nextSend != sending.size();
       ++request) {
    if (requests[request] != MPI_REQUEST_NULL)
      continue;
    auto [peer, segment] = sending[nextSend];
    int length = lengthOf(plan.sends(peer), segment);
    const std::byte *data =
        plan.outgoing(peer, segment * plan.segmentLength, length,
                      outgoingRing.data() + request * ringSlot);
    if (!data)
      return okStatus();
    OPTIMUS_MPI_CHECK(MPI_Isend, data, length, plan.unit.type, peer, plan.tag,
                      plan.comm, &requests[request]);
    ++nextSend;
    moved = true;
  }
  return okStatus();
}

Status Exchange::postReceive(int request) {
  Source &source = sourceOf(request);
  if (source.next == segmentsOf(source.count))
    return okStatus();
  segments[request] = source.next++;
  OPTIMUS_MPI_CHECK(MPI_Irecv, placeOf(request),
                    lengthOf(source.count, segments[request]), plan.unit.type,
                    source.peer, plan.tag, plan.comm, &requests[request]);
  return okStatus();
}

} // namespace optrt
