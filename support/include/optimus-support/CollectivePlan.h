//===- CollectivePlan.h - A collective as steps of its members --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What one member of a group does for a collective: messages to and from other
// members, additions in rank order, copies. A plan knows no transport. A step
// goes over its elements in order, and may do one when the steps that it
// follows have done theirs: so a back-end divides a plan's steps into segments
// as it likes, and works on one while others are under way.
//
// all_reduce of 10 elements among 3 members, the steps of member 1:
//
//   0  send source[6, 10) to 2             1  receive slots[0, 3) from 0
//   2  send source[0, 3) to 0              3  receive slots[3, 6) from 2
//   4  add slots[0, 3) source[3, 6) slots[3, 6) to destination[3, 6), after 1,
//   3 5  send destination[3, 6) to 2, after 4 6  receive destination[0, 3) from
//   0, after 2 7  send destination[3, 6) to 0, after 4 8  receive
//   destination[6, 10) from 2, after 0
//
// Steps 6 and 8 follow sends, since the source may be the destination.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_COLLECTIVEPLAN_H
#define OPTIMUS_SUPPORT_COLLECTIVEPLAN_H

#include "optimus-support/Program.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace optimus_support {

/// Elements [begin, begin + count) of a buffer, or of the [outer, inner] block
/// of a matrix that starts at `column`.
struct PlanView {
  enum Place : uint8_t {
    Source,
    Destination,
    Slots,   ///< of other members' terms of a sum
    Own,     ///< of what several others get, if it does not lie together
    Passing, ///< of elements on their way only: `begin` is the number of a ring
  };
  Place place = Source;
  int64_t column = 0, begin = 0;
};

/// A collective of matrices whose rows begin `srcLd` and `dstLd` elements
/// apart.
struct CollectiveShape {
  program::CollectiveKind kind;
  int64_t outer, inner;
  int64_t srcLd, dstLd;

  int64_t count() const { return outer * inner; }
  /// Whether the elements of a view follow one another.
  bool isTogether(const PlanView &view) const {
    return view.place > PlanView::Destination || outer == 1 ||
           (view.place == PlanView::Source ? srcLd : dstLd) == inner;
  }
};

/// How data gets to where it is wanted.
enum class CollectiveRoute : uint8_t {
  Direct, ///< all to everybody, in one round
  Parts,  ///< each member has to do with a part, and hands it on
  Chain,  ///< broadcast or reduce, from member to member; sums stay f32
};

/// One round is faster than two for so few elements.
inline CollectiveRoute shortestRoute(const CollectiveShape &shape) {
  return shape.count() <= 1024 ? CollectiveRoute::Direct
                               : CollectiveRoute::Parts;
}

struct PlanStep {
  enum Kind : uint8_t { Send, Receive, Add, Copy };
  static constexpr int kNone = -1;

  Kind kind = Copy;
  /// Tells apart the two messages that may go from one member to another.
  uint8_t channel = 0;
  int peer = kNone;  ///< of a message, whose elements lie together
  int64_t count = 0; ///< elements
  PlanView from, to;
  /// In CollectivePlan::after: these steps, of as many elements.
  int afterBegin = 0, afterEnd = 0;
  /// The last step to use the ring that this one writes.
  int release = kNone;
};

struct CollectivePlan {
  std::vector<PlanStep> steps;
  /// What the one Add adds up, from the first to the last.
  std::vector<PlanView> terms;
  std::vector<int> after;
  /// Elements of Slots and Own; rings, and elements of the longest step on one.
  int64_t slots = 0, own = 0, rings = 0, longestPassing = 0;

  std::span<const int> stepsBefore(const PlanStep &step) const {
    return {after.data() + step.afterBegin, after.data() + step.afterEnd};
  }
};

/// What member `index` of `size` does. Messages between two members on a
/// channel are sent and received in one order, as long as they are.
/// A former plan gives its memory.
CollectivePlan planCollective(const CollectiveShape &shape, int root, int index,
                              int size, CollectiveRoute route,
                              CollectivePlan former = {});

/// What one end of a message does; `shape` is that of its own matrix, whatever
/// its kind.
CollectivePlan planMessage(const CollectiveShape &shape, bool isSender,
                           int peer, CollectivePlan former = {});

/// How a back-end divides a plan.
struct PlanLimits {
  int64_t segment; ///< elements of all segments of a step but the last
  int sends;       ///< segments on their way at a time, on each channel
  int receives;    ///< of each message; and those of a ring

  int64_t ringLength(const CollectivePlan &plan) const {
    return segment < plan.longestPassing / receives ? segment * receives
                                                    : plan.longestPassing;
  }
};
/// Over TCP: what a message brings goes at once.
inline constexpr PlanLimits kWholeMessages = {INT64_MAX, INT32_MAX, 1};

/// Elements of Slots, Own and Passing while a plan is under way.
using CollectiveRoom = std::array<int64_t, 3>;
inline CollectiveRoom roomFor(const CollectivePlan &plan,
                              const PlanLimits &limits) {
  return {plan.slots, plan.own, plan.rings * limits.ringLength(plan)};
}
/// The most over TCP of any member, which the compiler reports.
CollectiveRoom largestRoomOverTcp(const CollectiveShape &shape, int root,
                                  int size);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_COLLECTIVEPLAN_H
