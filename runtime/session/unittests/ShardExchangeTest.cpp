//===- ShardExchangeTest.cpp - Between shards and whole tensors -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShardExample.h"

#include <mutex>
#include <numeric>

using namespace optrt;
using namespace optrt::test;
using namespace optimus_support;

// Written by any processes of a mesh and read by any of another, wherever a
// piece ends.
TEST(ShardExchange, PiecesAreTheWholeTensorsAndBack) {
  for (const Mesh &mesh : meshes()) {
    SCOPED_TRACE(mesh.toString());
    const Example example(mesh);
    const PieceSlabs slabs = example.slabs();
    const int processes = int(mesh.numRanks());
    for (int takers : {processes, (processes + 1) / 2, 1}) {
      Mailbox mail;
      std::mutex mutex;
      std::vector<std::vector<float>> found(example.pieces.size());
      onEachRank(mesh, [&](int rank) {
        Process process(example, mail, rank);
        process.fill(example, rank);
        ShardExchange exchange(process.control, example.manifest,
                               {&process.buffers});
        std::vector<int> those(takers);
        std::iota(those.begin(), those.end(), processes - takers);
        std::vector<PieceList> lists(processes);
        shareOut(exchange, slabs, those, allPieces(example.pieces), lists);
        std::size_t most = (example.pieces.size() + takers - 1) / takers;
        for (const PieceList &list : lists)
          ASSERT_LE(list.size(), most);

        std::vector<float> own;
        for (SlabRounds rounds(slabs, lists); !rounds.done();
             rounds.advance()) {
          own.assign(rounds.countOf(rank), -1.0f);
          ASSERT_TRUE(exchange.collect(rounds.slabs(), own).ok());
          if (!own.empty()) {
            std::lock_guard guard(mutex);
            std::vector<float> &piece = found[rounds.pieceOf(rank)];
            piece.insert(piece.end(), own.begin(), own.end());
          }
        }

        // And back, into shards whose padding was zeroed.
        for (int64_t buffer : example.held) {
          const ShardLayout &layout = example.manifest.buffers[buffer].layout;
          std::fill_n(process.shard(buffer), layout.numLocalElements(), -1.0f);
          if (layout.hasPadding(mesh)) {
            ASSERT_TRUE(process.buffers.clear(buffer).ok());
          }
        }
        for (SlabRounds rounds(slabs, lists); !rounds.done();
             rounds.advance()) {
          own.clear();
          if (rounds.countOf(rank) > 0) {
            std::lock_guard guard(mutex);
            own = found[rounds.pieceOf(rank)];
          }
          ASSERT_TRUE(exchange
                          .distribute(rounds.slabs(), own,
                                      [](int, int) { return true; })
                          .ok());
        }
        for (int64_t buffer : example.held) {
          const ShardLayout &layout = example.manifest.buffers[buffer].layout;
          std::vector<float> expected(layout.numLocalElements());
          layout.slice(mesh, rank, example.whole(buffer).data(),
                       expected.data());
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                                 process.shard(buffer)))
              << "buffer " << buffer << " of rank " << rank;
        }
      });
      for (std::size_t piece = 0; piece != found.size(); ++piece)
        ASSERT_EQ(found[piece], elementsOf(slabs, piece)) << "piece " << piece;
    }
  }
}

// Wherever memory begins within a store past the caches.
TEST(ShardExchange, FillsTheSameForLater) {
  const Mesh mesh({{"row", 1}, {"col", 1}});
  const Example example(mesh);
  const PieceSlabs slabs = example.slabs();
  Mailbox mail;
  Process process(example, mail, /*rank=*/0);
  process.fill(example, /*rank=*/0);
  ShardExchange exchange(process.control, example.manifest, {&process.buffers});
  exchange.fillForLater();
  for (std::size_t piece = 0; piece != example.pieces.size(); ++piece)
    for (std::size_t begin : {0, 1, 2, 3}) {
      std::vector<float> expected = elementsOf(slabs, piece);
      const std::size_t count = expected.size();
      std::vector<float> found(begin + count + 1, -1.0f);
      ASSERT_TRUE(exchange
                      .collectHere(slabs.whole(piece),
                                   std::span(found).subspan(begin, count))
                      .ok());
      expected.insert(expected.begin(), begin, -1.0f);
      expected.push_back(-1.0f);
      ASSERT_EQ(found, expected) << "piece " << piece << " at " << begin;
    }
}

// Queries, keys and values of four heads, of which a process has no values.
TEST(PieceSlabs, RowsHavePartsOfSeveralBuffers) {
  Manifest manifest;
  for (int64_t part = 0; part != 3; ++part) {
    Buffer &buffer = manifest.buffers.emplace_back();
    buffer.layout.shape = {4, 5};
    buffer.saved = {CheckpointFile::Model, "qkv", {60}, 15, 5 * part};
  }
  CheckpointPieces pieces;
  pieces.addFile(
      {CheckpointFile::Model, 64, 64 + 240, 1024, {{{"qkv", {60}}, 64, 240}}});
  const PieceSlabs slabs(
      pieces, membersOf(manifest, pieces, [](int64_t i) { return i != 2; }));
  const Slab slab = slabs.slab(0, 3, 25);
  const int64_t none = BufferPart::kNoBuffer;
  const BufferPart expected[] = {{0, 3, 2}, {1, 0, 5}, {none, 0, 5},
                                 {0, 5, 5}, {1, 5, 5}, {none, 5, 3}};
  ASSERT_EQ(slab.size(), std::size(expected));
  for (std::size_t i = 0; i != slab.size(); ++i) {
    EXPECT_EQ(slab[i].buffer, expected[i].buffer) << i;
    EXPECT_EQ(slab[i].begin, expected[i].begin) << i;
    EXPECT_EQ(slab[i].count, expected[i].count) << i;
  }
}

// Groups that each have a copy of the files keep to themselves.
TEST(ShardExchange, ReadersOfOtherFilesAreServedByTheirOwn) {
  const Mesh mesh({{"row", 2}, {"col", 2}});
  const Example example(mesh);
  const PieceSlabs slabs = example.slabs();
  const std::vector<int> readers{0, 0, 2, 2};
  Mailbox mail;
  onEachRank(mesh, [&](int rank) {
    Process process(example, mail, rank);
    ShardExchange exchange(process.control, example.manifest,
                           {&process.buffers});
    std::vector<PieceList> lists(4);
    shareOutReading(exchange, slabs, readers, 0, lists);
    shareOutReading(exchange, slabs, readers, 2, lists);
    std::vector<float> own;
    for (SlabRounds rounds(slabs, lists); !rounds.done(); rounds.advance()) {
      own.clear();
      const Slab &slab = rounds.slabs()[rank];
      for (const BufferPart &part : slab)
        for (int64_t i = 0; i != part.count; ++i)
          own.push_back(Example::valueOf(part.buffer, part.begin + i) +
                        float(readers[rank]) / 4);
      ASSERT_TRUE(exchange
                      .distribute(rounds.slabs(), own,
                                  [&](int from, int to) {
                                    return readers[from] == readers[to];
                                  })
                      .ok());
    }
    for (int64_t buffer : example.held) {
      const ShardLayout &layout = example.manifest.buffers[buffer].layout;
      std::vector<float> whole = example.whole(buffer);
      for (float &value : whole)
        value += float(readers[rank]) / 4;
      layout.forEachRun(mesh, rank, [&](const ShardRun &run) {
        ASSERT_TRUE(std::equal(&whole[run.globalOffset],
                               &whole[run.globalOffset] + run.count,
                               process.shard(buffer) + run.localOffset))
            << "buffer " << buffer << " of rank " << rank;
      });
    }
  });
}

// What is replicated, or lies in one rank, is not sent to be written.
TEST(ShardExchange, WhatAProcessHoldsIsNotSent) {
  const Mesh mesh({{"row", 4}, {"col", 1}});
  Example example(mesh);
  for (Buffer &buffer : example.manifest.buffers) {
    buffer.layout.localShape = buffer.layout.shape;
    for (std::vector<int> &axes : buffer.layout.axes)
      axes.clear();
  }
  const PieceSlabs slabs = example.slabs();
  Mailbox mail;
  onEachRank(mesh, [&](int rank) {
    Process process(example, mail, rank);
    ShardExchange exchange(process.control, example.manifest,
                           {&process.buffers});
    std::vector<PieceList> lists(4);
    const std::vector<int> all{0, 1, 2, 3};
    shareOut(exchange, slabs, all, allPieces(example.pieces), lists);
    std::vector<float> own;
    for (SlabRounds rounds(slabs, lists); !rounds.done(); rounds.advance()) {
      own.resize(rounds.countOf(rank));
      ASSERT_TRUE(exchange.collect(rounds.slabs(), own).ok());
    }
  });
  EXPECT_EQ(mail.moved, 0u);
}

TEST(PieceShares, WritersBeginFarFromOneAnother) {
  auto spread = [](std::vector<PieceList> lists, std::size_t threads) {
    spreadOut(lists, threads);
    return lists;
  };
  using Lists = std::vector<PieceList>;
  EXPECT_EQ(spread({{0, 1, 2, 3, 4}}, 1), (Lists{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(spread({{0, 1, 2, 3, 4}}, 2), (Lists{{0, 3, 1, 4, 2}}));
  EXPECT_EQ(spread({{0, 1}}, 4), (Lists{{0, 1}}));
  EXPECT_EQ(spread({{0, 1, 4}, {2, 3, 5}}, 1), (Lists{{0, 1, 4}, {3, 5, 2}}));
  // One writes for all.
  EXPECT_EQ(spread({{0, 1}, {}}, 1), (Lists{{0, 1}, {}}));
  EXPECT_EQ(spread({{}}, 2), (Lists{{}}));
}
