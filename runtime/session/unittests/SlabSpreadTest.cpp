//===- SlabSpreadTest.cpp - Slabs that all processes take from ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/SlabSpread.h"
#include "ShardExample.h"

using namespace optrt;
using namespace optrt::test;
using optimus_support::Mesh;
using optimus_support::ShardLayout;

namespace {

/// Reads a process's pieces of the example.
class PieceSource {
public:
  explicit PieceSource(const PieceSlabs &slabs) : slabs(slabs) {}

  void read(std::size_t piece, bool isFirst, std::span<float> to) {
    if (isFirst)
      rest = elementsOf(slabs, piece);
    ASSERT_GE(rest.size(), to.size());
    std::copy_n(rest.begin(), to.size(), to.begin());
    rest.erase(rest.begin(), rest.begin() + std::ptrdiff_t(to.size()));
  }

private:
  const PieceSlabs &slabs;
  std::vector<float> rest;
};

void expectShards(const Example &example, Process &process, int rank) {
  const Mesh &mesh = example.manifest.mesh;
  for (int64_t buffer : example.held) {
    const ShardLayout &layout = example.manifest.buffers[buffer].layout;
    std::vector<float> expected(layout.numLocalElements());
    layout.slice(mesh, rank, example.whole(buffer).data(), expected.data());
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), process.shard(buffer)))
        << "buffer " << buffer << " of rank " << rank;
  }
}

/// Has all ranks take the example's pieces, which the last `takers` processes
/// read of every `copies` in a row.
void spread(const Mesh &mesh, int perMachine, int takers, int copies,
            Mailbox &mail) {
  const Example example(mesh);
  const PieceSlabs slabs = example.slabs();
  const int processes = int(mesh.numRanks());
  onEachRank(mesh, [&](int rank) {
    Process process(example, mail, rank, perMachine);
    ShardExchange exchange(process.control, example.manifest,
                           {&process.buffers});
    std::vector<PieceList> lists(processes);
    for (int first = 0; first != processes; first += copies) {
      std::vector<int> those(takers);
      std::iota(those.begin(), those.end(), first + copies - takers);
      shareOut(exchange, slabs, those, allPieces(example.pieces), lists);
    }
    auto regions =
        SharedRegions::create(process.control, SlabSpread::regionBytes(lists));
    ASSERT_TRUE(regions.ok()) << regions.status().message();
    for (int64_t buffer : example.held)
      ASSERT_TRUE(process.buffers.clear(buffer).ok());
    PieceSource pieces(slabs);
    Status status =
        SlabSpread(exchange, slabs, lists, **regions, [&](int from, int to) {
          return from / copies == to / copies;
        }).run([&](std::size_t piece, bool isFirst, std::span<float> to) {
          pieces.read(piece, isFirst, to);
        });
    EXPECT_TRUE(status.ok()) << status.message();
    expectShards(example, process, rank);
  });
}

} // namespace

// Whoever reads them, and whoever shares memory with whom.
TEST(SlabSpread, ShardsAreOfTheWholeTensors) {
  for (const Mesh &mesh : meshes())
    for (int perMachine : {0, 1, 2}) {
      SCOPED_TRACE(mesh.toString() + ", " + std::to_string(perMachine));
      const int processes = int(mesh.numRanks());
      for (int takers : {processes, 1}) {
        Mailbox mail;
        spread(mesh, perMachine, takers, processes, mail);
        if (perMachine == 0) {
          EXPECT_EQ(mail.moved, 0u) << "nothing is sent within a machine";
        }
      }
    }
}

// Two machines with a copy of the files each, and two copies on one machine.
TEST(SlabSpread, ReadersOfOtherFilesAreServedByTheirOwn) {
  for (int perMachine : {0, 2}) {
    Mailbox mail;
    spread(Mesh({{"row", 2}, {"col", 2}}), perMachine, /*takers=*/2,
           /*copies=*/2, mail);
    EXPECT_EQ(mail.moved, 0u);
  }
}
