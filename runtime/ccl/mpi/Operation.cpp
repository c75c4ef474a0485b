//===- Operation.cpp - A collective in flight over MPI --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operation.h"

#include "optimus-support/ElementType.h"

#include <algorithm>
#include <climits>

using namespace optrt;
using namespace optimus_support;

/// Elements from which a chain pays: its many messages cost less than what
/// other ways lose in link time.
static constexpr int64_t kChainElements = 1 << 14;

/// Of sends under way there are few, or what they bring collides on the way
/// into a rank, and all arrive late. Longer segments collide, too; shorter ones
/// cost more, which shows where many ranks share a core.
static constexpr PlanLimits kExchange = {/*segment=*/1 << 15, /*sends=*/3,
                                         /*receives=*/2};

/// Short enough that a chain fills soon, long enough for few messages; between
/// two ranks there is nothing to hand on. MPI moves segments side by side, and
/// many would all arrive late: one to move, and one to keep the link busy.
static PlanLimits chainLimits(int64_t count, bool isWhole) {
  return {isWhole ? std::min<int64_t>(count, INT_MAX)
                  : std::clamp<int64_t>(count / 64, 1 << 13, 1 << 16),
          /*sends=*/2, /*receives=*/2};
}

/// MPI adds nothing: elements are as many bytes.
static MPI_Datatype typeOf(const optrt_collective_desc &desc) {
  switch (elementBytes(ElementType(desc.type))) {
  case 1:
    return MPI_UINT8_T;
  case 2:
    return MPI_UINT16_T;
  case 4:
    return MPI_UINT32_T;
  default:
    return MPI_UINT64_T;
  }
}

namespace {
struct Way {
  CollectivePlan plan;
  PlanLimits limits;
};
} // namespace

static Way wayOf(const Members &members, const optrt_collective_desc &desc,
                 CollectivePlan former = {}) {
  const CollectiveShape shape = shapeOf(desc);
  const int64_t count = shape.count();
  const bool isBroadcast = desc.kind == OPTRT_BROADCAST;
  const bool isLong = count >= kChainElements;
  auto plan = [&](CollectiveRoute route) {
    return planOf(desc, members.index, members.size, route, std::move(former));
  };
  // Narrow sums would be rounded on their way.
  if (isLong &&
      (isBroadcast ? members.chainBroadcast
                   : desc.kind == OPTRT_REDUCE && desc.type == OPTRT_F32))
    return {plan(CollectiveRoute::Chain),
            chainLimits(count, isBroadcast && members.size == 2)};
  if (!isBroadcast || members.size == 1 || count == 0)
    return {plan(shortestRoute(shape)), kExchange};
  // One message stands for MPI's broadcast. The root gives to itself as if it
  // were alone.
  const bool isRoot = members.index == desc.root;
  Way way{{}, {count, 1, 1}};
  if (isRoot)
    way.plan = planCollective(shape, 0, 0, 1, CollectiveRoute::Direct,
                              std::move(former));
  PlanStep whole;
  whole.kind = isRoot ? PlanStep::Send : PlanStep::Receive;
  whole.count = count;
  whole.to.place = PlanView::Destination;
  way.plan.steps.push_back(whole);
  return way;
}

static bool isOfLibrary(const CollectivePlan &plan) {
  return !plan.steps.empty() && plan.steps.back().kind <= PlanStep::Receive &&
         plan.steps.back().peer == PlanStep::kNone;
}

std::vector<int64_t> Operation::bufferBytes(const Members &members,
                                            const optrt_collective_desc &desc) {
  const Way way = wayOf(members, desc);
  return PlanWalk::bufferBytes(way.plan, way.limits, desc);
}

Status Operation::begin(const Members &newMembers, int newTag,
                        const optrt_collective_desc &newDesc, const void *src,
                        void *dst) {
  members = newMembers;
  tag = newTag;
  type = typeOf(newDesc);
  Way way = wayOf(members, newDesc, std::move(plan));
  OPTRT_RETURN_IF_ERROR(
      PlanWalk::begin(std::move(way.plan), way.limits, newDesc, src, dst));
  // MPI's broadcast is looked at when somebody waits: each look yields.
  return isOfLibrary(plan) ? okStatus() : advance();
}

Status Operation::post(const Message &message) {
  const Step &step = stepOf(message);
  const int count = static_cast<int>(message.elements);
  messages.push_back(message);
  MPI_Request &request = requests.emplace_back(MPI_REQUEST_NULL);
  if (step.peer == Step::kNone)
    return postBroadcast(message, request);
  if (step.kind == Step::Send)
    OPTIMUS_MPI_CHECK(MPI_Isend, message.data, count, type, step.peer,
                      tag + step.channel, members.comm, &request);
  else
    OPTIMUS_MPI_CHECK(MPI_Irecv, message.data, count, type, step.peer,
                      tag + step.channel, members.comm, &request);
  return okStatus();
}

/// Of a matrix whose rows may lie apart.
Status Operation::postBroadcast(const Message &message, MPI_Request &request) {
  const int64_t ld =
      stepOf(message).kind == Step::Send ? desc.src_ld : desc.dst_ld;
  if (desc.outer * ld > INT_MAX)
    return internal(
        "it moves 2^31 elements or more, which MPI's counts cannot express");
  MPI_Datatype rows;
  OPTIMUS_MPI_CHECK(MPI_Type_vector, static_cast<int>(desc.outer),
                    static_cast<int>(desc.inner), static_cast<int>(ld), type,
                    &rows);
  OPTIMUS_MPI_CHECK(MPI_Type_commit, &rows);
  OPTIMUS_MPI_CHECK(MPI_Ibcast, message.data, 1, rows, desc.root, members.comm,
                    &request);
  // MPI keeps a freed type until the operations that use it are complete.
  OPTIMUS_MPI_CHECK(MPI_Type_free, &rows);
  return okStatus();
}

Status Operation::test(std::vector<Message> &ended) {
  int count = 0;
  complete.assign(requests.size(), 0);
  // MPI_Test looks again after it has moved something.
  if (requests.size() == 1)
    OPTIMUS_MPI_CHECK(MPI_Test, &requests[0], &count, MPI_STATUS_IGNORE);
  else
    OPTIMUS_MPI_CHECK(MPI_Testsome, static_cast<int>(requests.size()),
                      requests.data(), &count, complete.data(),
                      MPI_STATUSES_IGNORE);
  if (count == MPI_UNDEFINED || count == 0)
    return okStatus();
  for (int i = 0; i != count; ++i)
    ended.push_back(messages[complete[i]]);
  // Complete requests are null.
  std::size_t kept = 0;
  for (std::size_t i = 0; i != requests.size(); ++i)
    if (requests[i] != MPI_REQUEST_NULL) {
      requests[kept] = requests[i];
      messages[kept++] = messages[i];
    }
  requests.resize(kept);
  messages.resize(kept);
  return okStatus();
}
