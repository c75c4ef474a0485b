//===- ShardExchangeTest.cpp - Between shards and whole tensors -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../ShardExchange.h"
#include "../PieceShares.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

using namespace optrt;
using namespace optimus_support;

namespace {

/// Where the processes of a job, which are threads here, leave messages.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> messages;
  std::size_t moved = 0; ///< floats
};

/// One rank a process, as over MPI.
class OneOfMany final : public ControlPlane {
public:
  OneOfMany(Mailbox &mail, int rank, int ranks)
      : mail(mail), rank(rank), ranks(ranks) {}
  Status layOut(const Mesh &) override { return okStatus(); }
  int size() const override { return ranks; }
  int firstRank() const override { return rank; }
  int numLocalRanks() const override { return 1; }
  std::vector<std::string> allGather(const std::string &own) override {
    return {own};
  }
  Status exchange(int to, std::span<const float> out, int from,
                  std::span<float> in) override {
    std::unique_lock guard(mail.mutex);
    if (!out.empty())
      mail.messages[{rank, to}].emplace_back(out.begin(), out.end());
    mail.moved += out.size();
    mail.arrived.notify_all();
    if (in.empty())
      return okStatus();
    auto &queue = mail.messages[{from, rank}];
    mail.arrived.wait(guard, [&] { return !queue.empty(); });
    EXPECT_EQ(queue.front().size(), in.size());
    std::ranges::copy(queue.front(), in.begin());
    queue.pop_front();
    return okStatus();
  }
  RankActivity &activity(int) override { return unused; }
  Status watch(WatchOptions) override { return okStatus(); }
  [[noreturn]] void exitJob(int) override { std::abort(); }

private:
  Mailbox &mail;
  int rank, ranks;
  RankActivity unused;
};

/// Buffers on a mesh: sharded over rows and columns, evenly and not, over one
/// axis, over none; and the pieces of a file that has them, two in one tensor.
struct Example {
  explicit Example(Mesh mesh) {
    manifest.mesh = mesh;
    auto add = [&](std::vector<int64_t> shape,
                   std::vector<std::vector<int>> axes) {
      Buffer &buffer = manifest.buffers.emplace_back();
      buffer.type = ElementType::F32;
      buffer.layout = {shape, shape, axes};
      for (std::size_t d = 0; d != shape.size(); ++d)
        buffer.layout.localShape[d] =
            (shape[d] + mesh.combinedSize(axes[d]) - 1) /
            mesh.combinedSize(axes[d]);
      buffer.name = "buffer" + std::to_string(held.size());
      buffer.saved = {CheckpointFile::Model, buffer.name, shape};
      held.push_back(static_cast<int64_t>(held.size()));
      return &buffer;
    };
    file.dataBegin = file.bytes = 64;
    file.pieceBytes = 1024;
    add({40, 30}, {{0}, {1}});
    add({7}, {{}});
    add({13, 5}, {{1}, {0}});
    add({10, 3, 7, 4}, {{0}, {}, {1}, {}});
    add({101}, {{0, 1}});
    add({}, {});
    add({300}, {{1}});
    add({4, 7, 5}, {{0}, {1}, {}})->saved = {
        CheckpointFile::Model, "packed", {20, 12}, 60, 0};
    add({4, 25}, {{}, {0}})->saved = {
        CheckpointFile::Model, "packed", {20, 12}, 60, 35};
    for (const TensorInfo &tensor :
         manifest.savedTensors(CheckpointFile::Model)) {
      file.tensors.push_back(
          {tensor, file.bytes, std::size_t(numElements(tensor.shape)) * 4});
      file.bytes += file.tensors.back().bytes;
    }
    pieces.addFile(file);
  }
  PieceSlabs slabs() const {
    return PieceSlabs(
        pieces, membersOf(manifest, pieces, [](int64_t) { return true; }));
  }
  /// Element i of a whole tensor.
  static float valueOf(int64_t buffer, int64_t i) {
    return float(1000 * (buffer + 1)) + float(i);
  }
  std::vector<float> whole(int64_t buffer) const {
    std::vector<float> values(manifest.buffers[buffer].layout.numElements());
    std::iota(values.begin(), values.end(), valueOf(buffer, 0));
    return values;
  }

  Manifest manifest;
  std::vector<int64_t> held;
  TensorFileExtent file;
  CheckpointPieces pieces;
};

/// One process of a job on the example.
struct Process {
  Process(const Example &example, Mailbox &mail, int rank)
      : control(mail, rank, int(example.manifest.mesh.numRanks())) {
    auto devices = DeviceFactory::open("cpu");
    EXPECT_TRUE(devices.ok());
    auto opened = devices->create(/*threads=*/1);
    EXPECT_TRUE(opened.ok());
    device = std::move(opened).value();
    auto made =
        RankBuffers::create(example.manifest, rank, example.held, *device);
    EXPECT_TRUE(made.ok());
    buffers = std::move(made).value();
  }
  float *shard(int64_t buffer) {
    return static_cast<float *>(buffers.argument(buffer));
  }

  OneOfMany control;
  std::unique_ptr<Device> device;
  RankBuffers buffers;
};

void onEachRank(const Mesh &mesh, const std::function<void(int)> &fn) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank != mesh.numRanks(); ++rank)
    threads.emplace_back(fn, rank);
  for (std::thread &thread : threads)
    thread.join();
}

const std::vector<Mesh> &meshes() {
  static const std::vector<Mesh> all{
      Mesh({{"row", 1}, {"col", 1}}), Mesh({{"row", 2}, {"col", 2}}),
      Mesh({{"row", 2}, {"col", 3}}), Mesh({{"row", 4}, {"col", 1}}),
      Mesh({{"row", 2}, {"col", 2}, {"data", 2}})};
  return all;
}

} // namespace

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
        for (int64_t buffer : example.held)
          example.manifest.buffers[buffer].layout.slice(
              mesh, rank, example.whole(buffer).data(), process.shard(buffer));
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
      for (std::size_t piece = 0; piece != found.size(); ++piece) {
        std::vector<float> expected;
        for (const BufferPart &part : slabs.whole(piece))
          for (int64_t i = 0; i != part.count; ++i)
            expected.push_back(Example::valueOf(part.buffer, part.begin + i));
        ASSERT_EQ(found[piece], expected) << "piece " << piece;
      }
    }
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
  const Mesh mesh({{"row", 4}});
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
