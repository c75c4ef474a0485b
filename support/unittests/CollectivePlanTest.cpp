//===- CollectivePlanTest.cpp - Plans give what collectives mean ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executor in memory does the plans of all members, a random segment of a
// random step at a time. It knows steps and no algorithm. It is as weak as a
// transport may be: a send ends when it is received and must stay unchanged
// until then, and the memory of a posted receive is overwritten at once.
//
//===----------------------------------------------------------------------===//

#include "optimus-support/CollectivePlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

using namespace optimus_support;
using program::CollectiveKind;

namespace {

/// Adding is neither commutative nor associative.
using Number = uint64_t;
Number plus(Number a, Number b) {
  return (a * 0x9e3779b97f4a7c15) + ((b ^ (b >> 29)) * 0xbf58476d1ce4e5b9) + 1;
}
constexpr Number kUntouched = 0xdead;
constexpr Number kUnderWay = 0xbeef;

struct Case {
  CollectiveShape shape;
  int root, size;
  CollectiveRoute route;
  PlanLimits limits;
  bool inPlace;    ///< where that may be
  bool isOneQueue; ///< messages between two members are in one order
  unsigned seed;
};

class Group {
public:
  explicit Group(const Case &test) : test(test), random(test.seed) {
    for (int index = 0; index != test.size; ++index)
      members.push_back(makeMember(index));
  }

  void run() {
    std::vector<std::pair<int, int>> all; // members and steps
    for (int index = 0; index != test.size; ++index)
      for (std::size_t i = 0; i != members[index].plan.steps.size(); ++i)
        all.push_back({index, i});
    std::size_t at = 0, refused = 0;
    for (bool isStuck = all.empty(); !isStuck;) {
      if (random() % 4 == 0)
        at = random();
      const auto [index, i] = all[at++ % all.size()];
      if (doSome(index, i)) {
        refused = 0;
      } else if (++refused > all.size()) {
        // Jumps may have left some out: a whole round decides.
        isStuck = true;
        for (const auto &[member, step] : all)
          if (doSome(member, step))
            isStuck = false;
        refused = 0;
      }
    }
    check();
  }

private:
  struct Progress {
    int64_t started = 0, done = 0;
    std::vector<bool> ended; ///< by segment
  };
  struct Member {
    CollectiveShape shape;
    CollectivePlan plan;
    CollectiveRoom room;
    std::vector<Number> source, destination, slots, own, passing;
    bool inPlace;
    std::vector<Progress> progress;
    int inFlight[2] = {};
  };
  struct Message {
    int channel, step;
    int64_t segment;
    std::vector<Number> data; ///< as it was when it was sent
  };
  struct Line {
    std::deque<Message> sent, expected;
  };

  int64_t columnsOf(bool isSource) const {
    const bool isWide =
        test.shape.kind == CollectiveKind::AllToAll ||
        test.shape.kind == (isSource ? CollectiveKind::ReduceScatter
                                     : CollectiveKind::AllGather);
    return test.shape.inner * (isWide ? test.size : 1);
  }

  /// What a member brings.
  static Number content(int index, int64_t row, int64_t column) {
    return index * 1000003 + row * 1009 + column * 7 + 1;
  }

  Member makeMember(int index) const {
    Member member;
    member.shape = test.shape;
    const bool isAllReduce = test.shape.kind == CollectiveKind::AllReduce;
    const bool isRooted = test.shape.kind == CollectiveKind::Broadcast ||
                          test.shape.kind == CollectiveKind::Reduce;
    member.inPlace =
        test.inPlace && (isAllReduce || (isRooted && index == test.root));
    // Gaps of its own, and none on some.
    if (test.seed % 3 != 0) {
      member.shape.srcLd += (index + test.seed) % 3;
      member.shape.dstLd += (index + test.seed / 2) % 2;
    }
    if (member.inPlace)
      member.shape.dstLd = member.shape.srcLd;
    member.plan =
        planCollective(member.shape, test.root, index, test.size, test.route);
    member.room = roomFor(member.plan, test.limits);
    member.source.assign(test.shape.outer * member.shape.srcLd, kUntouched);
    for (int64_t row = 0; row != test.shape.outer; ++row)
      for (int64_t column = 0; column != columnsOf(true); ++column)
        member.source[row * member.shape.srcLd + column] =
            content(index, row, column);
    member.destination.assign(test.shape.outer * member.shape.dstLd,
                              kUntouched);
    member.slots.assign(member.plan.slots, kUntouched);
    member.own.assign(member.plan.own, kUntouched);
    member.passing.assign(member.room[2], kUntouched);
    for (const PlanStep &step : member.plan.steps)
      member.progress.push_back(
          {0, 0, std::vector<bool>(segmentsOf(step), false)});
    return member;
  }

  int64_t segment() const {
    return std::min(test.limits.segment, test.shape.count());
  }
  int64_t segmentsOf(const PlanStep &step) const {
    return (step.count + segment() - 1) / segment();
  }
  int64_t lengthOf(const PlanStep &step, int64_t number) const {
    return std::min(segment(), step.count - number * segment());
  }

  Number &at(Member &member, const PlanView &view, int64_t e) {
    std::vector<Number> *const buffers[] = {
        &member.source, member.inPlace ? &member.source : &member.destination,
        &member.slots, &member.own, &member.passing};
    std::vector<Number> &buffer = *buffers[view.place];
    if (view.place == PlanView::Passing) {
      // At most `receives` segments of a step, one after the other.
      const int64_t length = test.limits.ringLength(member.plan);
      return buffer.at(view.begin * length + e % length);
    }
    e += view.begin;
    if (view.place > PlanView::Destination)
      return buffer.at(e);
    const int64_t ld = view.place == PlanView::Source ? member.shape.srcLd
                                                      : member.shape.dstLd;
    return buffer.at(e / test.shape.inner * ld + view.column +
                     e % test.shape.inner);
  }

  bool isReady(const Member &member, int i) const {
    const PlanStep &step = member.plan.steps[i];
    const int64_t next = member.progress[i].started;
    if (next == segmentsOf(step))
      return false;
    for (int before : member.plan.stepsBefore(step)) {
      EXPECT_EQ(member.plan.steps[before].count, step.count);
      if (member.progress[before].done <= next)
        return false;
    }
    // On one queue messages with a peer begin in the plan's order.
    for (int before = 0; before != i && test.isOneQueue; ++before) {
      const PlanStep &other = member.plan.steps[before];
      if (other.kind == step.kind && other.peer == step.peer &&
          step.peer != PlanStep::kNone &&
          member.progress[before].started != segmentsOf(other))
        return false;
    }
    return step.release == PlanStep::kNone ||
           next - member.progress[step.release].done < test.limits.receives;
  }

  Line &lineOf(int from, int to, int channel) {
    return lines[{from, to, test.isOneQueue ? 0 : channel}];
  }

  /// Does a segment of a step, or the end of one; false: it cannot yet.
  bool doSome(int index, int i) {
    Member &member = members[index];
    const PlanStep &step = member.plan.steps[i];
    Progress &own = member.progress[i];
    const bool expects = step.kind == PlanStep::Receive;
    if (expects && random() % 2 && deliver(step.peer, index, step.channel))
      return true;
    if (!isReady(member, i) ||
        (expects && own.started - own.done == test.limits.receives))
      return expects && deliver(step.peer, index, step.channel);
    const int64_t begin = own.started * segment(),
                  length = lengthOf(step, own.started);
    Message message{step.channel, i, own.started, {}};
    switch (step.kind) {
    case PlanStep::Send:
      if (member.inFlight[step.channel] == test.limits.sends)
        return false;
      ++member.inFlight[step.channel];
      for (int64_t e = 0; e != length; ++e)
        message.data.push_back(at(member, step.from, begin + e));
      lineOf(index, step.peer, step.channel).sent.push_back(message);
      break;
    case PlanStep::Receive:
      for (int64_t e = 0; e != length; ++e)
        at(member, step.to, begin + e) = kUnderWay;
      lineOf(step.peer, index, step.channel).expected.push_back(message);
      break;
    default:
      for (int64_t e = begin; e != begin + length; ++e) {
        if (step.kind == PlanStep::Copy) {
          at(member, step.to, e) = at(member, step.from, e);
          continue;
        }
        Number sum = at(member, member.plan.terms[0], e);
        for (std::size_t t = 1; t != member.plan.terms.size(); ++t)
          sum = plus(sum, at(member, member.plan.terms[t], e));
        at(member, step.to, e) = sum;
      }
      ++own.done;
    }
    ++own.started;
    return true;
  }

  /// The next message on a line, if one is sent and one is expected.
  bool deliver(int from, int to, int channel) {
    Line &line = lineOf(from, to, channel);
    if (line.sent.empty() || line.expected.empty())
      return false;
    const Message sent = line.sent.front(), expected = line.expected.front();
    line.sent.pop_front();
    line.expected.pop_front();
    Member &sender = members[from], &receiver = members[to];
    const PlanStep &send = sender.plan.steps[sent.step],
                   &receive = receiver.plan.steps[expected.step];
    EXPECT_EQ(sent.channel, expected.channel);
    EXPECT_EQ(sent.segment, expected.segment);
    EXPECT_EQ(send.count, receive.count);
    const int64_t length = sent.data.size();
    if (length != lengthOf(receive, expected.segment)) {
      ADD_FAILURE() << "a message of another length";
      return false;
    }
    for (int64_t e = 0; e != length; ++e) {
      const int64_t element = sent.segment * segment() + e;
      EXPECT_EQ(at(sender, send.from, element), sent.data[e])
          << "changed on its way";
      EXPECT_EQ(at(receiver, receive.to, element), kUnderWay)
          << "touched before it came";
      at(receiver, receive.to, element) = sent.data[e];
    }
    --sender.inFlight[send.channel];
    EXPECT_TRUE(sender.shape.isTogether(send.from) &&
                receiver.shape.isTogether(receive.to));
    end(sender.progress[sent.step], sent.segment);
    end(receiver.progress[expected.step], expected.segment);
    return true;
  }

  static void end(Progress &progress, int64_t segment) {
    progress.ended[segment] = true;
    while (progress.done != int64_t(progress.ended.size()) &&
           progress.ended[progress.done])
      ++progress.done;
  }

  /// The element that the collective's definition gives.
  Number expected(int index, int64_t row, int64_t column) const {
    switch (test.shape.kind) {
    case CollectiveKind::Broadcast:
      return content(test.root, row, column);
    case CollectiveKind::AllGather:
      return content(static_cast<int>(column / test.shape.inner), row,
                     column % test.shape.inner);
    case CollectiveKind::AllToAll:
      return content(static_cast<int>(column / test.shape.inner), row,
                     index * test.shape.inner + column % test.shape.inner);
    case CollectiveKind::ReduceScatter:
      column += index * test.shape.inner;
      break;
    default:
      break;
    }
    Number sum = content(0, row, column);
    for (int other = 1; other != test.size; ++other)
      sum = plus(sum, content(other, row, column));
    return sum;
  }

  void check() {
    for (auto &[ends, line] : lines)
      EXPECT_TRUE(line.sent.empty() && line.expected.empty())
          << "nobody meets a message from " << std::get<0>(ends) << " to "
          << std::get<1>(ends);
    for (int index = 0; index != test.size; ++index) {
      Member &member = members[index];
      for (std::size_t i = 0; i != member.plan.steps.size(); ++i)
        EXPECT_EQ(member.progress[i].done, segmentsOf(member.plan.steps[i]))
            << "member " << index << " is stuck in step " << i;
      const bool receives =
          test.shape.kind != CollectiveKind::Reduce || index == test.root;
      const std::vector<Number> &result =
          member.inPlace ? member.source : member.destination;
      for (int64_t row = 0; row != test.shape.outer; ++row) {
        for (int64_t column = 0; column != member.shape.dstLd; ++column)
          EXPECT_EQ(result[row * member.shape.dstLd + column],
                    receives && column < columnsOf(false)
                        ? expected(index, row, column)
                        : kUntouched)
              << "member " << index << ", row " << row << ", column " << column;
        for (int64_t column = 0;
             column != member.shape.srcLd && !member.inPlace; ++column)
          EXPECT_EQ(member.source[row * member.shape.srcLd + column],
                    column < columnsOf(true) ? content(index, row, column)
                                             : kUntouched)
              << "the source was changed";
      }
    }
  }

  const Case test;
  std::mt19937 random;
  std::vector<Member> members;
  std::map<std::tuple<int, int, int>, Line> lines; ///< from, to, channel
};

struct Way {
  CollectiveKind kind;
  CollectiveRoute route;
};

std::vector<Way> allWays() {
  using enum CollectiveRoute;
  return {{CollectiveKind::Broadcast, Direct},
          {CollectiveKind::Broadcast, Parts},
          {CollectiveKind::Broadcast, Chain},
          {CollectiveKind::Reduce, Direct},
          {CollectiveKind::Reduce, Parts},
          {CollectiveKind::Reduce, Chain},
          {CollectiveKind::AllReduce, Direct},
          {CollectiveKind::AllReduce, Parts},
          {CollectiveKind::AllGather, Direct},
          {CollectiveKind::ReduceScatter, Direct},
          {CollectiveKind::AllToAll, Direct}};
}

Case makeCase(Way way, int size, unsigned seed) {
  std::mt19937 random(seed * 131 + size);
  auto upTo = [&](int64_t most) { return int64_t(random() % (most + 1)); };
  Case test{};
  test.shape.kind = way.kind;
  test.route = way.route;
  test.shape.outer = upTo(5);
  test.shape.inner = seed % 5 == 0 ? upTo(70) : upTo(9);
  test.size = size;
  test.root = upTo(size - 1);
  const bool exchanges = way.kind == CollectiveKind::AllToAll;
  const bool gathers = way.kind == CollectiveKind::AllGather;
  const bool scatters = way.kind == CollectiveKind::ReduceScatter;
  test.shape.srcLd = test.shape.inner * (scatters || exchanges ? size : 1);
  test.shape.dstLd = test.shape.inner * (gathers || exchanges ? size : 1);
  test.inPlace = random() % 2;
  test.isOneQueue = random() % 3 == 0;
  if (test.isOneQueue)
    test.limits = kWholeMessages;
  else
    test.limits = {1 + upTo(std::max<int64_t>(test.shape.count() / 2, 3)),
                   static_cast<int>(1 + upTo(2)),
                   static_cast<int>(1 + upTo(2))};
  test.seed = random();
  return test;
}

class CollectivePlanTest : public testing::TestWithParam<int> {};

TEST_P(CollectivePlanTest, GivesWhatIsDefinedInEveryOrder) {
  const int size = GetParam();
  for (const Way &way : allWays())
    for (unsigned seed = 0; seed != 25; ++seed) {
      const Case test = makeCase(way, size, seed);
      SCOPED_TRACE(testing::Message()
                   << "kind " << int(way.kind) << ", route " << int(way.route)
                   << ", " << test.shape.outer << "x" << test.shape.inner
                   << ", root " << test.root << " of " << size << ", seed "
                   << seed);
      Group(test).run();
      if (HasFailure())
        return;
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CollectivePlanTest, testing::Range(1, 18));

std::string describe(const PlanView &view, int64_t count) {
  static const char *const names[] = {"source", "destination", "slots", "own",
                                      "passing"};
  std::ostringstream text;
  text << names[view.place] << "[" << view.begin << ", " << view.begin + count
       << ")";
  return text.str();
}

/// A step a line, as in the header's example.
std::string describe(const CollectivePlan &plan) {
  std::ostringstream text;
  for (const PlanStep &step : plan.steps) {
    switch (step.kind) {
    case PlanStep::Send:
      text << "send " << describe(step.from, step.count) << " to " << step.peer;
      break;
    case PlanStep::Receive:
      text << "receive " << describe(step.to, step.count) << " from "
           << step.peer;
      break;
    case PlanStep::Add:
      text << "add";
      for (const PlanView &term : plan.terms)
        text << " " << describe(term, step.count);
      text << " to " << describe(step.to, step.count);
      break;
    case PlanStep::Copy:
      text << "copy " << describe(step.from, step.count) << " to "
           << describe(step.to, step.count);
      break;
    }
    for (int before : plan.stepsBefore(step))
      text << ", after " << before;
    text << "\n";
  }
  return text.str();
}

TEST(CollectivePlan, IsTheExampleOfItsHeader) {
  const CollectiveShape shape{CollectiveKind::AllReduce, 2, 5, 5, 5};
  EXPECT_EQ(describe(planCollective(shape, 0, 1, 3, CollectiveRoute::Parts)),
            "send source[6, 10) to 2\n"
            "receive slots[0, 3) from 0\n"
            "send source[0, 3) to 0\n"
            "receive slots[3, 6) from 2\n"
            "add slots[0, 3) source[3, 6) slots[3, 6) to destination[3, 6), "
            "after 1, after 3\n"
            "send destination[3, 6) to 2, after 4\n"
            "receive destination[0, 3) from 0, after 2\n"
            "send destination[3, 6) to 0, after 4\n"
            "receive destination[6, 10) from 2, after 0\n");
}

TEST(CollectivePlan, NeedsNoOtherMessageForTheFirstToAPeer) {
  // So whoever posts what is ready posts it before the second.
  for (const Way &way : allWays())
    for (int index = 0; index != 5; ++index) {
      if (way.route == CollectiveRoute::Chain)
        continue;
      const CollectivePlan plan =
          planCollective({way.kind, 3, 7, 40, 50}, 1, index, 5, way.route);
      for (const PlanStep &step : plan.steps)
        for (int before : plan.stepsBefore(step))
          EXPECT_TRUE(step.channel == 1 || step.peer == PlanStep::kNone ||
                      plan.steps[before].kind == PlanStep::Copy)
              << describe(plan);
    }
}

TEST(CollectivePlan, AddsInOneRoundWhatIsSmall) {
  const CollectiveShape small{CollectiveKind::AllReduce, 1, 1024, 1024, 1024};
  const CollectiveShape large{CollectiveKind::AllReduce, 1, 1025, 1025, 1025};
  EXPECT_EQ(shortestRoute(small), CollectiveRoute::Direct);
  EXPECT_EQ(shortestRoute(large), CollectiveRoute::Parts);
}

TEST(CollectivePlan, KeepsRoomForWhatLiesApartOnly) {
  const CollectiveShape dense{CollectiveKind::AllReduce, 30, 100, 100, 100};
  // Three members, each with a part of 1000, of which two come from others.
  EXPECT_EQ(largestRoomOverTcp(dense, 0, 3), (CollectiveRoom{2000, 0, 0}));
  // Both send two parts and receive two, and what they reduced.
  const CollectiveShape apart{CollectiveKind::AllReduce, 30, 100, 107, 103};
  EXPECT_EQ(largestRoomOverTcp(apart, 0, 3),
            (CollectiveRoom{2000, 1000, 4 * 1000}));
  // Two segments of 128 of each.
  const PlanLimits limits{128, 3, 2};
  EXPECT_EQ(
      roomFor(planCollective(apart, 0, 1, 3, CollectiveRoute::Parts), limits),
      (CollectiveRoom{2000, 1000, 4 * 2 * 128}));
  const CollectiveShape chain{CollectiveKind::Reduce, 30, 100, 100, 100};
  EXPECT_EQ(
      roomFor(planCollective(chain, 2, 1, 3, CollectiveRoute::Chain), limits),
      (CollectiveRoom{0, 0, 2 * 128}));
}

} // namespace
