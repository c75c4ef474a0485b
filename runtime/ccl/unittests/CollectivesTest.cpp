//===- CollectivesTest.cpp - What every back-end must do ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One suite for all back-ends. Run as it is, it tests thread ranks; under
// mpirun, the MPI back-end; as ranks told apart by OPTIMUS_RANK, the TCP
// back-end, with the meshes of as many ranks.
//
//===----------------------------------------------------------------------===//

#include "CollectiveKinds.h"
#include "CollectiveWorlds.h"
#include "TypedNumbers.h"
#include "base/Subnormals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace optrt;

namespace {

struct Shape {
  int64_t outer, inner;
};

class CollectivesTest
    : public testing::TestWithParam<std::tuple<Backend, Mesh, Kind, Shape>> {
protected:
  void SetUp() override {
    world = &worldOf(std::get<0>(GetParam()));
    axes = std::get<1>(GetParam()).axes;
    laidOut = std::get<1>(GetParam()).named();
    Status status = world->control->layOut(laidOut);
    ASSERT_TRUE(status.ok()) << status.message();
    status =
        world->collectives->createGroups(*world->control, laidOut, {&axes, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    n = static_cast<int>(laidOut.combinedSize(axes));
    computeContents();
  }

  /// The initial contents of every rank, and their reductions, computed once:
  /// it takes longer than to move it.
  void computeContents() {
    const Kind &kind = std::get<2>(GetParam());
    const Shape &shape = std::get<3>(GetParam());
    const bool exchanges = kind.kind == OPTRT_ALL_TO_ALL;
    columns = exchanges || kind.kind == OPTRT_REDUCE_SCATTER ? n * shape.inner
                                                             : shape.inner;
    contents.assign(laidOut.numRanks(), {});
    for (int rank = 0; rank != laidOut.numRanks(); ++rank)
      for (int64_t row = 0; row != shape.outer; ++row)
        for (int64_t column = 0; column != columns; ++column)
          contents[rank].push_back(element(kind.type, rank, row, column));
    reduced.assign(laidOut.numRanks(), {});
    for (int rank = 0; rank != laidOut.numRanks(); ++rank) {
      if (indexOf(rank) != 0)
        continue;
      const std::vector<int> members = membersOf(rank);
      std::vector<float> &result = reduced[rank] = contents[rank];
      for (int index = 1; index != n; ++index)
        for (std::size_t i = 0; i != result.size(); ++i) {
          const float other = contents[members[index]][i];
          result[i] = kind.reduction == OPTRT_SUM ? result[i] + other
                                                  : std::max(result[i], other);
        }
      // Added up in f32, whatever the type, and rounded once.
      for (float &each : result)
        each = rounded(kind.type, each);
    }
  }

  Communicator &communicator(int rank) const {
    return world->collectives->communicator(rank, /*group=*/0);
  }
  int indexOf(int rank) const {
    return static_cast<int>(laidOut.combinedIndex(rank, axes));
  }
  /// The ranks of a rank's group, in order.
  std::vector<int> membersOf(int rank) const {
    std::vector<int> members(n);
    for (int other = 0; other != laidOut.numRanks(); ++other)
      if (laidOut.firstOfGroup(other, axes) == laidOut.firstOfGroup(rank, axes))
        members[indexOf(other)] = other;
    return members;
  }

  void onRanks(const std::function<void(int)> &body) {
    optrt::onRanks(*world, body);
  }

  /// Fills a rank's buffers, runs the collective and compares every element
  /// bit by bit.
  void check(int rank, uint32_t id, int root, int64_t srcGap, int64_t dstGap,
             bool inPlace) {
    startOne(rank, id, root, srcGap, dstGap, inPlace).finish();
  }

  struct Running {
    CollectivesTest *test;
    int rank, index, root;
    std::vector<int> members;
    uint32_t id;
    optrt_collective_desc desc;
    Numbers source, destination;
    int64_t srcColumns, dstColumns;
    bool inPlace;

    void finish() {
      Communicator &comm = test->communicator(rank);
      Status status = comm.wait({id});
      ASSERT_TRUE(status.ok()) << status.message();
      int n = test->n;
      const Numbers &result = inPlace ? source : destination;
      int64_t ld = inPlace ? desc.src_ld : desc.dst_ld;
      bool receives = desc.kind != OPTRT_REDUCE || index == root;
      for (int64_t row = 0; row != desc.outer; ++row)
        for (int64_t column = 0; column != ld; ++column) {
          float found = result[row * ld + column];
          float expected = column < dstColumns && receives
                               ? test->expected(*this, row, column)
                               : kUntouched;
          if (inPlace && !receives && column < srcColumns)
            expected = test->content(rank, row, column);
          if (std::memcmp(&found, &expected, sizeof(float)) != 0)
            FAIL() << "rank " << rank << " row " << row << " column " << column
                   << ": expected " << expected << ", found " << found << ", n "
                   << n << ", root " << root;
        }
      if (inPlace)
        return;
      for (int64_t row = 0; row != desc.outer; ++row)
        for (int64_t column = 0; column != srcColumns; ++column)
          if (source[row * desc.src_ld + column] !=
              test->content(rank, row, column))
            FAIL() << "the source was changed";
    }
  };

  Running startOne(int rank, uint32_t id, int root, int64_t srcGap,
                   int64_t dstGap, bool inPlace) {
    const Kind &kind = std::get<2>(GetParam());
    const Shape &shape = std::get<3>(GetParam());
    Running run{};
    run.test = this;
    run.rank = rank;
    run.index = indexOf(rank);
    run.members = membersOf(rank);
    run.root = root;
    run.id = id;
    run.inPlace = inPlace;
    run.srcColumns = columns;
    const bool exchanges = kind.kind == OPTRT_ALL_TO_ALL;
    run.dstColumns = exchanges || kind.kind == OPTRT_ALL_GATHER
                         ? n * shape.inner
                         : shape.inner;
    run.desc = {kind.kind,
                kind.reduction,
                axes[0],
                root,
                shape.outer,
                shape.inner,
                run.srcColumns + srcGap,
                inPlace ? run.srcColumns + srcGap : run.dstColumns + dstGap,
                kind.type};
    run.source.assign(kind.type, shape.outer * run.desc.src_ld, kUntouched);
    for (int64_t row = 0; row != shape.outer; ++row)
      for (int64_t column = 0; column != run.srcColumns; ++column)
        run.source.set(row * run.desc.src_ld + column,
                       content(rank, row, column));
    run.destination.assign(kind.type, shape.outer * run.desc.dst_ld,
                           kUntouched);

    // What CommandDescriptors.h allows to be null is null.
    bool isRoot = run.index == root;
    const void *src = run.source.data();
    void *dst = inPlace ? run.source.data() : run.destination.data();
    if (kind.kind == OPTRT_BROADCAST && !isRoot)
      src = nullptr;
    if (kind.kind == OPTRT_REDUCE && !isRoot)
      dst = nullptr;
    Status status = communicator(rank).start({id}, run.desc, src, dst);
    EXPECT_TRUE(status.ok()) << status.message();
    return run;
  }

  float content(int rank, int64_t row, int64_t column) const {
    return contents[rank][row * columns + column];
  }

  /// The element that the definition in CommandDescriptors.h gives.
  float expected(const Running &run, int64_t row, int64_t column) const {
    int64_t inner = run.desc.inner;
    switch (run.desc.kind) {
    case OPTRT_BROADCAST:
      return content(run.members[run.root], row, column);
    case OPTRT_ALL_GATHER:
      return content(run.members[column / inner], row, column % inner);
    case OPTRT_ALL_TO_ALL:
      return content(run.members[column / inner], row,
                     run.index * inner + column % inner);
    case OPTRT_REDUCE_SCATTER:
      column += run.index * inner;
      break;
    default:
      break;
    }
    return reduced[run.members[0]][row * columns + column];
  }

  World *world;
  Collectives::Axes axes;
  optimus_support::Mesh laidOut;
  int n;
  int64_t columns;                          ///< of what a rank begins with
  std::vector<std::vector<float>> contents; ///< by rank
  std::vector<std::vector<float>> reduced;  ///< by the first rank of a group
};

TEST_P(CollectivesTest, ContiguousFromEveryRoot) {
  // Of large ones, checking every root would take most of the suite's time.
  const Shape &shape = std::get<3>(GetParam());
  int step = shape.outer * shape.inner > 10000 ? std::max(1, n - 2) : 1;
  onRanks([&](int rank) {
    for (int root = 0; root < n; root += step)
      check(rank, 1, root, 0, 0, false);
  });
}

TEST_P(CollectivesTest, StridedWithDifferentStridesOnEachRank) {
  onRanks([&](int rank) { check(rank, 1, n - 1, 3 + rank, 7 - rank, false); });
}

TEST_P(CollectivesTest, WaitsInAnyOrder) {
  onRanks([&](int rank) {
    const Shape &shape = std::get<3>(GetParam());
    int rounds = shape.outer * shape.inner > 10000 ? 1 : 3;
    for (int round = 0; round != rounds; ++round) {
      std::vector<Running> running;
      for (int i = 0; i != 5; ++i)
        running.push_back(
            startOne(rank, static_cast<uint32_t>(i), i % n, i, 0, false));
      // Each rank in an order of its own, with more starts in between.
      std::swap(running[rank % 5], running[0]);
      std::swap(running[(rank + round) % 5], running[3]);
      running[0].finish();
      running.push_back(startOne(rank, 7, 0, 0, 1, false));
      for (std::size_t i = running.size(); i != 1; --i)
        running[i - 1].finish();
    }
  });
}

/// For the kinds that CommandDescriptors.h allows in place.
class CollectivesInPlace : public CollectivesTest {};

TEST_P(CollectivesInPlace, SourceIsDestination) {
  int32_t kind = std::get<2>(GetParam()).kind;
  onRanks([&](int rank) {
    int root = n / 2;
    bool isRoot = indexOf(rank) == root;
    check(rank, 1, root, 5, 0, kind == OPTRT_ALL_REDUCE || isRoot);
  });
}

TEST_P(CollectivesTest, ManyInFlightOneAfterAnother) {
  // Up to three at a time. Small ones go on until every slot of a communicator
  // was used twice; checking as many large ones would take most of the suite's
  // time.
  const Shape &shape = std::get<3>(GetParam());
  int64_t elements = shape.outer * shape.inner;
  int rounds = elements > 10000 ? 2 : elements > 100 ? 4 : 45;
  static_assert(3 * 45 > 2 * Communicator::kMaxInFlight);
  onRanks([&](int rank) {
    uint32_t id = 0;
    for (int round = 0; round != rounds; ++round) {
      std::vector<Running> running;
      for (int i = 0; i != 3; ++i)
        running.push_back(
            startOne(rank, id++, (round + i) % n, i, round % 2, false));
      for (Running &run : running)
        run.finish();
    }
  });
}

// One element; rows of odd length; enough that every rank reduces a part.
const auto kShapes = testing::Values(Shape{1, 1}, Shape{3, 7}, Shape{33, 65},
                                     Shape{1, 4099}, Shape{0, 4});
// Enough for several segments of a chain or an exchange, in one row and in
// many.
const auto kLargeShapes = testing::Values(Shape{1, 50001}, Shape{277, 509});

std::string
describe(const testing::TestParamInfo<std::tuple<Backend, Mesh, Kind, Shape>>
             &info) {
  const auto &[backend, mesh, kind, shape] = info.param;
  std::string text = backend.name + "_";
  for (int64_t size : mesh.sizes)
    text += std::to_string(size) + "x";
  text.back() = '_';
  text += mesh.axes.size() == 1 ? "axis" : "axes";
  for (int axis : mesh.axes)
    text += std::to_string(axis);
  return text + "_" + kind.name + "_" + std::to_string(shape.outer) + "x" +
         std::to_string(shape.inner);
}

/// The kinds for f32, or those for narrower elements.
std::vector<Kind> only(bool f32, std::vector<Kind> kinds) {
  std::erase_if(
      kinds, [&](const Kind &kind) { return (kind.type == OPTRT_F32) != f32; });
  return kinds;
}

// The ranks of a group do not depend on the element type: f32 meets every mesh,
// others the largest.
INSTANTIATE_TEST_SUITE_P(Conformance, CollectivesTest,
                         testing::Combine(testing::ValuesIn(backends()),
                                          testing::ValuesIn(meshesOfThisJob()),
                                          testing::ValuesIn(only(/*f32=*/true,
                                                                 allKinds())),
                                          kShapes),
                         describe);
INSTANTIATE_TEST_SUITE_P(
    Conformance, CollectivesInPlace,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(meshesOfThisJob()),
                     testing::ValuesIn(only(/*f32=*/true, kindsInPlace())),
                     kShapes),
    describe);
INSTANTIATE_TEST_SUITE_P(
    Narrow, CollectivesTest,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::ValuesIn(only(/*f32=*/false, allKinds())),
                     kShapes),
    describe);
INSTANTIATE_TEST_SUITE_P(
    Narrow, CollectivesInPlace,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::ValuesIn(only(/*f32=*/false, kindsInPlace())),
                     kShapes),
    describe);

INSTANTIATE_TEST_SUITE_P(
    AnyType, CollectivesTest,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::ValuesIn(kindsOfAnyType()),
                     testing::Values(Shape{3, 7}, Shape{33, 65})),
    describe);
INSTANTIATE_TEST_SUITE_P(
    Large, CollectivesTest,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::ValuesIn(allKinds()), kLargeShapes),
    describe);
INSTANTIATE_TEST_SUITE_P(
    Large, CollectivesInPlace,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::ValuesIn(kindsInPlace()), kLargeShapes),
    describe);

/// Sums below the normal numbers, of normal ones.
class SubnormalSums : public CollectivesTest {
protected:
  void begin(bool flush) {
    for (int rank = 0; rank != laidOut.numRanks(); ++rank)
      std::ranges::fill(contents[rank], indexOf(rank) == 0   ? 1.5e-38f
                                        : indexOf(rank) == 1 ? -1.4e-38f
                                                             : 0);
    volatile float first = 1.5e-38f, second = -1.4e-38f;
    for (std::vector<float> &sums : reduced)
      std::ranges::fill(sums, n == 1 ? first : flush ? 0 : first + second);
  }
};

TEST_P(SubnormalSums, AreZeroWhereRanksFlush) {
  for (bool flush : {false, true}) {
    begin(flush && canFlushSubnormals());
    onRanks([&](int rank) {
      const SubnormalScope scope(flush);
      check(rank, 1, 0, 0, 0, false);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Conformance, SubnormalSums,
    testing::Combine(
        testing::ValuesIn(backends()), testing::ValuesIn(meshesOfThisJob()),
        testing::Values(Kind{"AllReduce", OPTRT_ALL_REDUCE, OPTRT_SUM},
                        Kind{"ReduceScatter", OPTRT_REDUCE_SCATTER, OPTRT_SUM}),
        testing::Values(Shape{3, 7}, Shape{40, 901})),
    describe);

/// Ranks that neither wait nor make any call.
class CollectivesInBackground : public CollectivesTest {};

TEST_P(CollectivesInBackground, CompleteWithoutTheRanks) {
  using namespace std::chrono_literals;
  // Far longer than both take, or whatever else the machine does.
  for (auto patience = 200ms; patience <= 5000ms; patience *= 5) {
    std::atomic<bool> areComplete = true;
    onRanks([&](int rank) {
      Running first = startOne(rank, 1, n - 1, 0, 3, false);
      Running second = startOne(rank, 2, 0, 2, 0, false);
      Communicator &comm = communicator(rank);
      comm.overlap();
      std::this_thread::sleep_for(patience);
      for (Running *one : {&second, &first}) {
        auto before = Communicator::Clock::now();
        one->finish();
        if (comm.completionOfLastWait() >= before)
          areComplete = false;
      }
    });
    const std::vector<std::string> all =
        world->control->allGather(areComplete ? "complete" : "under way");
    if (std::count(all.begin(), all.end(), "under way") == 0)
      return;
  }
  FAIL() << "nothing moves while ranks do something else";
}

// Large enough for all stages of all kinds.
INSTANTIATE_TEST_SUITE_P(
    Conformance, CollectivesInBackground,
    testing::Combine(testing::ValuesIn(backends()),
                     testing::ValuesIn(largestMeshesOfThisJob()),
                     testing::ValuesIn(allKinds()),
                     testing::Values(Shape{40, 101}, Shape{201, 251})),
    describe);

} // namespace
