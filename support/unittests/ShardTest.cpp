//===- ShardTest.cpp - Which part of a tensor a rank holds ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Shard.h"
#include "optimus-support/Initialize.h"

#include "optimus-support/Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

using namespace optimus_support;

/// The layout of a tensor whose shards are as small as its extents allow, with
/// `extra` more on each dimension.
static ShardLayout makeLayout(const Mesh &mesh, std::vector<int64_t> shape,
                              std::vector<std::vector<int>> axes,
                              int64_t extra = 0) {
  ShardLayout layout{shape, shape, axes};
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t parts = mesh.combinedSize(axes[d]);
    layout.localShape[d] = (shape[d] + parts - 1) / parts + extra;
  }
  return layout;
}

/// Meshes and tensors, even and uneven, padded and not, replicated and not.
static std::vector<std::pair<Mesh, ShardLayout>> cases() {
  std::vector<std::pair<Mesh, ShardLayout>> result;
  for (auto [rows, cols] :
       {std::pair(1, 1), {2, 2}, {2, 3}, {3, 2}, {1, 4}, {4, 1}}) {
    Mesh mesh({{"row", rows}, {"col", cols}});
    for (int64_t extra : {0, 1}) {
      auto add = [&](std::vector<int64_t> shape,
                     std::vector<std::vector<int>> axes) {
        result.push_back({mesh, makeLayout(mesh, shape, axes, extra)});
      };
      add({}, {});
      add({12}, {{}});
      add({12}, {{1}});
      add({7}, {{0, 1}});
      add({2}, {{0, 1}}); // fewer elements than ranks
      add({12, 12}, {{0}, {1}});
      add({12, 12}, {{1}, {0}});
      add({5, 7}, {{0}, {1}});
      add({6, 3, 5, 4}, {{0}, {}, {1}, {}});
      add({3, 4, 2}, {{}, {1, 0}, {}});
      add({4, 1, 9}, {{}, {}, {0}});
    }
  }
  Mesh cube({{"data", 2}, {"row", 2}, {"col", 3}});
  result.push_back({cube, makeLayout(cube, {5, 8}, {{2}, {1}})});
  result.push_back({cube, makeLayout(cube, {13, 2}, {{0, 2}, {1}})});
  return result;
}

/// The global offset of a shard's element, or -1 for padding, from the
/// definition: one index at a time.
static int64_t globalOffset(const Mesh &mesh, const ShardLayout &layout,
                            int64_t rank, int64_t local) {
  int64_t offset = 0, stride = 1;
  for (int d = int(layout.shape.size()) - 1; d >= 0; --d) {
    int64_t index =
        local % layout.localShape[d] +
        mesh.combinedIndex(rank, layout.axes[d]) * layout.localShape[d];
    local /= layout.localShape[d];
    if (index >= layout.shape[d])
      return -1;
    offset += index * stride;
    stride *= layout.shape[d];
  }
  return offset;
}

TEST(Shard, RunsAreTheRealElements) {
  for (const auto &[mesh, layout] : cases()) {
    SCOPED_TRACE(mesh.toString() + " " + shapeToString(layout.shape));
    bool padded = false;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      std::vector<int64_t> expected(layout.numLocalElements()),
          found = expected;
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = globalOffset(mesh, layout, rank, i);
      std::fill(found.begin(), found.end(), -1);
      int64_t end = 0, real = 0;
      layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
        ASSERT_GE(run.localOffset, end);
        ASSERT_GE(run.count, 1);
        end = run.localOffset + run.count;
        real += run.count;
        ASSERT_LE(end, layout.numLocalElements());
        std::iota(&found[run.localOffset], &found[run.localOffset] + run.count,
                  run.globalOffset);
      });
      EXPECT_EQ(found, expected);
      EXPECT_EQ(real, layout.numRealElements(mesh, rank));
      padded |= real != layout.numLocalElements();
    }
    EXPECT_EQ(padded, layout.hasPadding(mesh));
  }
}

TEST(Shard, CanonicalOwnersMakeUpTheTensorOnce) {
  for (const auto &[mesh, layout] : cases()) {
    SCOPED_TRACE(mesh.toString() + " " + shapeToString(layout.shape));
    std::vector<int> owners(layout.numElements(), 0);
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      if (layout.isCanonicalOwner(mesh, rank))
        layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
          for (int64_t i = 0; i < run.count; ++i)
            ++owners[run.globalOffset + i];
        });
    EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
  }
}

TEST(Shard, SlicesAndPlacesBack) {
  for (const auto &[mesh, layout] : cases()) {
    SCOPED_TRACE(mesh.toString() + " " + shapeToString(layout.shape));
    std::vector<int32_t> whole(layout.numElements()), back(whole.size(), -1);
    std::iota(whole.begin(), whole.end(), 1);
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      std::vector<int32_t> local(layout.numLocalElements(), -1);
      layout.slice(mesh, rank, whole.data(), local.data());
      for (size_t i = 0; i < local.size(); ++i) {
        int64_t offset = globalOffset(mesh, layout, rank, i);
        ASSERT_EQ(local[i], offset < 0 ? 0 : whole[offset]);
      }
      layout.place(mesh, rank, local.data(), back.data());
    }
    EXPECT_EQ(back, whole);
  }
}

// Each replica does, and an element's holders are one of each.
TEST(Shard, ReplicasMakeUpTheTensorOnceEach) {
  for (const auto &[mesh, layout] : cases()) {
    SCOPED_TRACE(mesh.toString() + " " + shapeToString(layout.shape));
    for (int64_t whose = 0; whose < mesh.numRanks(); ++whose) {
      std::vector<int64_t> holders(layout.numElements(), -1);
      for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
        if (layout.areOfOneReplica(mesh, rank, whose))
          layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
            for (int64_t i = 0; i < run.count; ++i) {
              ASSERT_EQ(holders[run.globalOffset + i], -1);
              holders[run.globalOffset + i] = rank;
            }
          });
      for (int64_t element = 0; element < layout.numElements(); ++element) {
        ASSERT_NE(holders[element], -1);
        for (int64_t replica = 0; replica < 5; ++replica) {
          const int64_t holder = layout.holderOf(mesh, element, replica);
          ASSERT_EQ(layout.areOfOneReplica(mesh, holder, whose),
                    holder == holders[element]);
        }
      }
    }
  }
}

TEST(Shard, RunsAreSkippedAsTheyAreTaken) {
  for (const auto &[mesh, layout] : cases())
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      for (int64_t element = 0; element <= layout.numElements(); ++element) {
        ShardRuns taken(layout, mesh, rank), skipped = taken;
        for (ShardRun run; taken.takeBefore(element, run);)
          continue;
        skipped.skipTo(element);
        ShardRun expected, found;
        while (taken.takeBefore(layout.numElements(), expected)) {
          ASSERT_TRUE(skipped.takeBefore(layout.numElements(), found));
          ASSERT_EQ(found, expected);
        }
        ASSERT_TRUE(skipped.done());
      }
}

// Cut at ends that have nothing to do with the runs, the pieces are the runs.
TEST(Shard, RunsAreTakenInPieces) {
  for (const auto &[mesh, layout] : cases())
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      for (int64_t slab : {1, 2, 3, 5, 11, 1000}) {
        std::vector<int64_t> expected, found; // element after element
        layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
          for (int64_t i = 0; i < run.count; ++i)
            expected.insert(expected.end(),
                            {run.globalOffset + i, run.localOffset + i});
        });
        ShardRuns runs(layout, mesh, rank);
        for (int64_t end = slab; end < layout.numElements() + slab;
             end += slab) {
          ShardRuns again = runs;
          ShardRun run, same;
          while (runs.takeBefore(end, run)) {
            ASSERT_GE(run.count, 1);
            ASSERT_GE(run.globalOffset, end - slab);
            ASSERT_LE(run.globalOffset + run.count, end);
            ASSERT_TRUE(again.takeBefore(end, same));
            ASSERT_EQ(run, same);
            for (int64_t i = 0; i < run.count; ++i)
              found.insert(found.end(),
                           {run.globalOffset + i, run.localOffset + i});
          }
          ASSERT_FALSE(again.takeBefore(end, same));
        }
        EXPECT_TRUE(runs.done());
        EXPECT_EQ(found, expected);
      }
}

// Pieces of a shard's memory, padding included, hold the runs between them.
TEST(Shard, RunsOfPartsAreThoseOfTheShard) {
  for (const auto &[mesh, layout] : cases())
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      for (int64_t size : {1, 2, 3, 5, 11, 1000}) {
        std::vector<int64_t> expected, found; // element after element
        auto append = [](std::vector<int64_t> &to, const ShardRun &run) {
          for (int64_t i = 0; i < run.count; ++i)
            to.insert(to.end(), {run.globalOffset + i, run.localOffset + i});
        };
        layout.forEachRun(mesh, rank,
                          [&](const ShardRun &run) { append(expected, run); });
        for (int64_t begin = 0; begin < layout.numLocalElements();
             begin += size)
          for (ShardRuns runs(layout, mesh, rank, begin, begin + size);
               !runs.done(); runs.advance()) {
            ASSERT_GE(runs.next().count, 1);
            ASSERT_GE(runs.next().localOffset, begin);
            ASSERT_LE(runs.next().localOffset + runs.next().count,
                      begin + size);
            append(found, runs.next());
          }
        EXPECT_EQ(found, expected);
      }
}

TEST(Shard, RunsAreAsLongAsTheLayoutAllows) {
  Mesh mesh({{"row", 2}, {"col", 2}});
  auto runs = [&](const ShardLayout &layout, int64_t rank) {
    std::vector<ShardRun> result;
    layout.forEachRun(mesh, rank,
                      [&](const ShardRun &run) { result.push_back(run); });
    return result;
  };
  // Rows of a matrix lie together; so do whole trailing dimensions.
  EXPECT_EQ(runs(makeLayout(mesh, {6, 4}, {{0}, {}}), 2),
            (std::vector<ShardRun>{{12, 0, 12}}));
  EXPECT_EQ(runs(makeLayout(mesh, {2, 4, 3}, {{}, {1}, {}}), 1),
            (std::vector<ShardRun>{{6, 0, 6}, {18, 6, 6}}));
  // The last columns, uneven: two of three are real.
  EXPECT_EQ(runs(makeLayout(mesh, {2, 5}, {{}, {1}}), 1),
            (std::vector<ShardRun>{{3, 0, 2}, {8, 3, 2}}));
}

static void expectTheSameBits(const Initializer &init) {
  for (const auto &[mesh, layout] : cases()) {
    SCOPED_TRACE(mesh.toString() + " " + shapeToString(layout.shape));
    std::vector<float> whole(layout.numElements());
    (init.kind == InitKind::Uniform
         ? fillUniform(99, 6, 0, whole.size(), 0.02, whole.data())
         : fillNormal(99, 6, 0, whole.size(), 0.02, whole.data()));
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
      std::vector<float> local(layout.numLocalElements(), NAN);
      std::vector<float> expected = local;
      initializeShard(init, 99, layout, mesh, rank, local.data());
      layout.slice(mesh, rank, whole.data(), expected.data());
      EXPECT_EQ(std::memcmp(local.data(), expected.data(),
                            local.size() * sizeof(float)),
                0);
      std::ranges::fill(local, NAN);
      for (size_t begin = 0; begin < local.size(); begin += 7)
        initializePiece(init, 99, layout, mesh, rank, begin,
                        std::span(local).subspan(
                            begin, std::min<size_t>(7, local.size() - begin)));
      EXPECT_EQ(std::memcmp(local.data(), expected.data(),
                            local.size() * sizeof(float)),
                0);
    }
  }
}

TEST(Initialize, HasTheSameBitsOnEveryMesh) {
  expectTheSameBits({InitKind::Normal, 0.02, 6});
  expectTheSameBits({InitKind::Uniform, 0.02, 6});
}

TEST(Philox, UniformNumbersFillTheirRange) {
  constexpr int64_t kCount = 4096;
  std::vector<float> numbers(kCount);
  fillUniform(7, 3, 0, kCount, 0.5, numbers.data());
  double sum = 0, squares = 0;
  for (float number : numbers) {
    EXPECT_LE(std::abs(number), 0.5f);
    sum += number;
    squares += double(number) * number;
  }
  // Of variance 1/12: five standard deviations of the mean, and of the
  // square's.
  EXPECT_NEAR(sum / kCount, 0, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
}

TEST(Initialize, FillsConstantsAndLeavesPaddingZero) {
  Mesh mesh({{"col", 2}});
  ShardLayout layout = makeLayout(mesh, {3}, {{0}});
  std::vector<float> local(2, NAN);
  initializeShard({InitKind::Ones, 0, 0}, 0, layout, mesh, 1, local.data());
  EXPECT_EQ(local, (std::vector<float>{1, 0}));
  initializeShard({InitKind::Zeros, 0, 0}, 0, layout, mesh, 0, local.data());
  EXPECT_EQ(local, (std::vector<float>{0, 0}));
}

TEST(Shard, PrintsShapes) {
  std::vector<int64_t> shape = {192, 576}, none;
  EXPECT_EQ(shapeToString(shape), "[192, 576]");
  EXPECT_EQ(shapeToString(none), "[]");
}
