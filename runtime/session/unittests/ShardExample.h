//===- ShardExample.h - Processes of a job, as threads ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_UNITTESTS_SHARDEXAMPLE_H
#define OPTIMUS_RUNTIME_SESSION_UNITTESTS_SHARDEXAMPLE_H

#include "optimus-support/InputFile.h"
#include "session/PieceShares.h"
#include "session/ShardExchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace optrt::test {

using optimus_support::ElementType;
using optimus_support::Mesh;
using optimus_support::numElements;

/// Where the processes of a job, which are threads here, leave messages.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, int>, std::deque<std::vector<float>>> messages;
  std::size_t moved = 0; ///< floats
  /// Texts of each gathering, by rank.
  std::vector<std::map<int, std::string>> gathered;
};

/// One rank a process, as over MPI; so many on a machine, or all.
class OneOfMany final : public ControlPlane {
public:
  OneOfMany(Mailbox &mail, int rank, int ranks, int perMachine = 0)
      : mail(mail), rank(rank), ranks(ranks),
        machine(perMachine ? rank / perMachine : 0) {}
  Status layOut(const Mesh &) override { return okStatus(); }
  int size() const override { return ranks; }
  int firstRank() const override { return rank; }
  int numLocalRanks() const override { return 1; }
  std::vector<std::string> allGather(const std::string &own) override {
    const std::string identity = optimus_support::machineIdentity();
    std::unique_lock guard(mail.mutex);
    mail.gathered.resize(std::max(mail.gathered.size(), meetings + 1));
    mail.gathered[meetings][rank] =
        own.starts_with(identity) ? std::to_string(machine) + ":" + own : own;
    mail.arrived.notify_all();
    mail.arrived.wait(guard, [&] {
      return mail.gathered[meetings].size() == std::size_t(ranks);
    });
    std::vector<std::string> all;
    const std::string mine = std::to_string(machine) + ":";
    for (auto &[from, text] : mail.gathered[meetings])
      all.push_back(text.starts_with(mine + identity) ? text.substr(mine.size())
                                                      : text);
    ++meetings;
    return all;
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
  int rank, ranks, machine;
  std::size_t meetings = 0;
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
  Process(const Example &example, Mailbox &mail, int rank, int perMachine = 0)
      : control(mail, rank, int(example.manifest.mesh.numRanks()), perMachine) {
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
  /// Gives its rank what it has of every buffer.
  void fill(const Example &example, int rank) {
    for (int64_t buffer : example.held)
      example.manifest.buffers[buffer].layout.slice(
          example.manifest.mesh, rank, example.whole(buffer).data(),
          shard(buffer));
  }

  OneOfMany control;
  std::unique_ptr<Device> device;
  RankBuffers buffers;
};

inline void onEachRank(const Mesh &mesh, const std::function<void(int)> &fn) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank != mesh.numRanks(); ++rank)
    threads.emplace_back(fn, rank);
  for (std::thread &thread : threads)
    thread.join();
}

/// What a piece of the example's file has.
inline std::vector<float> elementsOf(const PieceSlabs &slabs,
                                     std::size_t piece) {
  std::vector<float> elements;
  for (const BufferPart &part : slabs.whole(piece))
    for (int64_t i = 0; i != part.count; ++i)
      elements.push_back(Example::valueOf(part.buffer, part.begin + i));
  return elements;
}

inline const std::vector<Mesh> &meshes() {
  static const std::vector<Mesh> all{
      Mesh({{"row", 1}, {"col", 1}}), Mesh({{"row", 2}, {"col", 2}}),
      Mesh({{"row", 2}, {"col", 3}}), Mesh({{"row", 4}, {"col", 1}}),
      Mesh({{"row", 2}, {"col", 2}, {"data", 2}})};
  return all;
}

} // namespace optrt::test

#endif // OPTIMUS_RUNTIME_SESSION_UNITTESTS_SHARDEXAMPLE_H
