//===- MessagesTest.cpp - From one rank to another, on every back-end -----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveKinds.h"
#include "CollectiveWorlds.h"
#include "TypedNumbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

using namespace optrt;
using optimus_support::ElementType;

namespace {

struct Shape {
  int64_t outer, inner;
};

class MessagesTest : public testing::TestWithParam<
                         std::tuple<Backend, Mesh, ElementType, Shape>> {
protected:
  void SetUp() override {
    const auto &[backend, mesh, type, shape] = GetParam();
    world = &worldOf(backend);
    laidOut = mesh.named();
    axes = mesh.axes;
    ASSERT_TRUE(world->control->layOut(laidOut).ok());
    const Status made =
        world->collectives->createGroups(*world->control, laidOut, {&axes, 1});
    ASSERT_TRUE(made.ok()) << made.message();
    n = static_cast<int>(laidOut.combinedSize(axes));
  }

  int indexOf(int rank) const {
    return static_cast<int>(laidOut.combinedIndex(rank, axes));
  }
  Communicator &communicator(int rank) const {
    return world->collectives->communicator(rank, /*group=*/0);
  }

  /// What a member sends to another as its message of a number.
  static float content(int from, int to, int number, int64_t row,
                       int64_t column) {
    return element(int32_t(std::get<2>(GetParam())),
                   from * 31 + to * 7 + number, row, column);
  }

  /// One end of a message: starts when it is made.
  struct End {
    MessagesTest *test;
    int rank, peer, number;
    bool isSender;
    CommandId id;
    optrt_collective_desc desc;
    Numbers data;

    void finish() {
      const Status status = test->communicator(rank).wait(id);
      ASSERT_TRUE(status.ok()) << status.message();
      const int own = test->indexOf(rank);
      const int from = isSender ? own : peer, to = isSender ? peer : own;
      for (int64_t row = 0; row != desc.outer; ++row)
        for (int64_t column = 0; column != ld(); ++column) {
          const float expected = column < desc.inner
                                     ? content(from, to, number, row, column)
                                     : kUntouched;
          ASSERT_EQ(data[row * ld() + column], expected)
              << "number " << number << " from " << from << " to " << to
              << ", row " << row << ", column " << column;
        }
    }
    int64_t ld() const { return isSender ? desc.src_ld : desc.dst_ld; }
  };

  End start(int rank, bool isSender, int peer, int number, int64_t gap = 0) {
    const auto &[backend, mesh, type, shape] = GetParam();
    End end{this, rank, peer, number, isSender, {}, {}, {}};
    end.id = {uint32_t(number * 2 + isSender), uint32_t(peer)};
    end.desc = {isSender ? OPTRT_SEND : OPTRT_RECEIVE,
                OPTRT_SUM,
                axes[0],
                peer,
                shape.outer,
                shape.inner,
                shape.inner + gap,
                shape.inner + gap,
                int32_t(type)};
    end.data.assign(int32_t(type), shape.outer * end.ld(), kUntouched);
    for (int64_t row = 0; row != shape.outer && isSender; ++row)
      for (int64_t column = 0; column != shape.inner; ++column)
        end.data.set(row * end.ld() + column,
                     content(indexOf(rank), peer, number, row, column));
    // Its memory stays where it is when the end moves.
    const Status status = communicator(rank).start(
        end.id, end.desc, isSender ? end.data.data() : nullptr,
        isSender ? nullptr : end.data.data());
    EXPECT_TRUE(status.ok()) << status.message();
    return end;
  }

  World *world = nullptr;
  optimus_support::Mesh laidOut;
  Collectives::Axes axes;
  int n = 0;
};

// All send first: a send that waited for its receive would wait for ever.
TEST_P(MessagesTest, GoAroundARing) {
  onRanks(*world, [&](int rank) {
    const int own = indexOf(rank);
    if (n == 1)
      return;
    for (int round = 0; round != 3; ++round) {
      End sent = start(rank, true, (own + 1) % n, round, rank);
      End received = start(rank, false, (own + n - 1) % n, round, 3 - round);
      received.finish();
      sent.finish();
    }
  });
}

TEST_P(MessagesTest, ArriveInTheOrderInWhichTheyAreSent) {
  onRanks(*world, [&](int rank) {
    const int own = indexOf(rank);
    // Pairs of members, in both directions; a last one may be alone.
    const int peer = own ^ 1;
    if (peer >= n)
      return;
    std::vector<End> ends;
    for (int number = 0; number != 6; ++number) {
      // Each in an order of its own between the directions.
      const bool sendsFirst = (own + number) % 3 == 0;
      ends.push_back(start(rank, sendsFirst, peer, number));
      ends.push_back(start(rank, !sendsFirst, peer, number));
    }
    std::swap(ends[own], ends[7]);
    for (std::size_t i = ends.size(); i != 0; --i)
      ends[i - 1].finish();
  });
}

// Members that have nothing to do with a message do not wait for it, and
// collectives come in their order.
TEST_P(MessagesTest, MixWithCollectivesAndOtherPeers) {
  onRanks(*world, [&](int rank) {
    const int own = indexOf(rank);
    for (int round = 0; round != 2; ++round) {
      std::vector<End> ends;
      for (int i = 1; i != n; ++i) {
        ends.push_back(start(rank, true, (own + i) % n, round));
        ends.push_back(start(rank, false, (own + n - i) % n, round));
      }
      float sum = float(own);
      const CommandId id{1000u + round, 999};
      const optrt_collective_desc all{
          OPTRT_ALL_REDUCE, OPTRT_SUM, axes[0], 0, 1, 1, 1, 1, OPTRT_F32};
      const Status started = communicator(rank).start(id, all, &sum, &sum);
      ASSERT_TRUE(started.ok()) << started.message();
      std::reverse(ends.begin(), ends.end());
      for (End &end : ends)
        end.finish();
      const Status ended = communicator(rank).wait(id);
      ASSERT_TRUE(ended.ok()) << ended.message();
      EXPECT_EQ(sum, float(n * (n - 1) / 2));
    }
  });
}

std::string
describe(const testing::TestParamInfo<MessagesTest::ParamType> &info) {
  const auto &[backend, mesh, type, shape] = info.param;
  std::string text = backend.name + "_";
  for (int64_t size : mesh.sizes)
    text += std::to_string(size) + "x";
  text.back() = '_';
  for (int axis : mesh.axes)
    text += "axis" + std::to_string(axis) + "_";
  return text + std::string(toString(type)) + "_" +
         std::to_string(shape.outer) + "x" + std::to_string(shape.inner);
}

INSTANTIATE_TEST_SUITE_P(
    Conformance, MessagesTest,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(meshesOfThisJob()),
                     testing::Values(ElementType::F32),
                     testing::Values(Shape{1, 1}, Shape{33, 65}, Shape{0, 4})),
    describe);
// More than any transport keeps on its way.
INSTANTIATE_TEST_SUITE_P(
    Large, MessagesTest,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::Values(ElementType::BF16),
                     testing::Values(Shape{277, 509})),
    describe);

/// Ends MPI while it can still be ended.
class WorldEnvironment : public testing::Environment {
  void TearDown() override { theWorld.reset(); }
};
testing::Environment *const worldEnvironment =
    testing::AddGlobalTestEnvironment(new WorldEnvironment);

} // namespace
