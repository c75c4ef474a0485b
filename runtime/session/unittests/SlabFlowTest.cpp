//===- SlabFlowTest.cpp - Slabs that all processes fill -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/SlabFlow.h"
#include "ShardExample.h"

#include <gmock/gmock.h>

#include <barrier>
#include <chrono>

using namespace optrt;
using namespace optrt::test;
using optimus_support::Mesh;
using Keeps = SlabFlow::Keeps;

namespace {

/// What all processes take, by piece.
struct Pieces {
  explicit Pieces(const Example &example) : found(example.pieces.size()) {}
  std::mutex mutex;
  std::vector<std::vector<float>> found;

  Status append(std::size_t piece, std::span<const float> elements) {
    std::lock_guard guard(mutex);
    found[piece].insert(found[piece].end(), elements.begin(), elements.end());
    return okStatus();
  }
};

std::vector<PieceList> sharedOut(const Example &example,
                                 const ShardExchange &exchange,
                                 const PieceSlabs &slabs, int takers) {
  std::vector<int> those(takers);
  std::iota(those.begin(), those.end(), exchange.numProcesses() - takers);
  std::vector<PieceList> lists(exchange.numProcesses());
  shareOut(exchange, slabs, those, allPieces(example.pieces), lists);
  return lists;
}

/// Who takes pieces, and how.
struct Takers {
  int number; ///< of processes, the last ones
  Keeps keeps = Keeps::SomeSlabs;
  int perMachine = 0;
};

/// Calls body(rank, flow, lists, control) in each process, whose shards are
/// filled.
template <typename Body>
void onEachFlow(const Example &example, const PieceSlabs &slabs, Mailbox &mail,
                const Takers &takers, Body body) {
  onEachRank(example.manifest.mesh, [&](int rank) {
    Process process(example, mail, rank, takers.perMachine);
    process.fill(example, rank);
    ShardExchange exchange(process.control, example.manifest,
                           {&process.buffers});
    const std::vector<PieceList> lists =
        sharedOut(example, exchange, slabs, takers.number);
    auto regions = SharedRegions::create(
        process.control,
        SlabFlow::regionBytes(example.pieces, lists, takers.keeps));
    ASSERT_TRUE(regions.ok()) << regions.status().message();
    SlabFlow flow(exchange, slabs, lists, **regions, takers.keeps);
    body(rank, flow, lists, process.control);
  });
}

} // namespace

// Whoever takes them, and whoever shares memory with whom.
TEST(SlabFlow, PiecesAreTheWholeTensors) {
  for (const Mesh &mesh : meshes())
    for (int perMachine : {0, 1, 2})
      for (Keeps keeps : {Keeps::SomeSlabs, Keeps::All}) {
        SCOPED_TRACE(mesh.toString() + ", " + std::to_string(perMachine));
        const Example example(mesh);
        const PieceSlabs slabs = example.slabs();
        const int processes = int(mesh.numRanks());
        for (int takers : {processes, 1}) {
          Mailbox mail;
          Pieces pieces(example);
          onEachFlow(
              example, slabs, mail, {takers, keeps, perMachine},
              [&](int rank, SlabFlow &flow, const auto &lists,
                  ControlPlane &control) {
                if (keeps == Keeps::SomeSlabs) {
                  ASSERT_TRUE(flow.run([&](std::size_t piece, auto slab) {
                                    return pieces.append(piece, slab);
                                  })
                                  .ok());
                  return;
                }
                ASSERT_TRUE(control.agree(flow.run()).ok());
                std::span<const float> kept = flow.kept();
                for (std::size_t piece : lists[rank]) {
                  const std::size_t count = example.pieces[piece].numElements();
                  ASSERT_TRUE(pieces.append(piece, kept.first(count)).ok());
                  kept = kept.subspan(count);
                }
              });
          for (std::size_t piece = 0; piece != pieces.found.size(); ++piece)
            ASSERT_EQ(pieces.found[piece], elementsOf(slabs, piece))
                << "piece " << piece;
          if (perMachine == 0) {
            EXPECT_EQ(mail.moved, 0u) << "nothing is sent within a machine";
          }
        }
      }
}

// It goes on with what the others wait for.
TEST(SlabFlow, AFailureIsOfTheProcessThatHasIt) {
  const Mesh mesh({{"row", 2}, {"col", 2}});
  const Example example(mesh);
  const PieceSlabs slabs = example.slabs();
  Mailbox mail;
  Pieces pieces(example);
  std::vector<std::string> messages(4);
  std::vector<PieceList> all;
  onEachFlow(example, slabs, mail, {.number = 4},
             [&](int rank, SlabFlow &flow, const auto &lists, ControlPlane &) {
               int taken = 0;
               messages[rank] =
                   flow.run([&](std::size_t piece, auto slab) -> Status {
                         if (rank == 2 && ++taken == 2)
                           return unavailable("the disk is full");
                         return pieces.append(piece, slab);
                       })
                       .message();
               if (rank == 2) {
                 EXPECT_EQ(taken, 2) << "nothing is taken after a failure";
                 all = lists;
               }
             });
  EXPECT_THAT(messages, testing::ElementsAre("", "", "the disk is full", ""));
  for (int process : {0, 1, 3})
    for (std::size_t piece : all[process])
      EXPECT_EQ(pieces.found[piece], elementsOf(slabs, piece));
}

// Rank 0 takes nothing: its regions are gone while rank 1 waits for rank 2,
// whose disk is slow.
TEST(SlabFlow, NobodyWaitsForOneThatIsDone) {
  const Mesh mesh({{"row", 3}, {"col", 1}});
  const Example example(mesh);
  const PieceSlabs slabs = example.slabs();
  Mailbox mail;
  onEachFlow(
      example, slabs, mail, {.number = 2},
      [&](int rank, SlabFlow &flow, const auto &lists, ControlPlane &) {
        std::size_t taken = 0;
        const Status status =
            flow.run([&](std::size_t, auto) {
              // It serves the others as late as it can.
              if (rank == 2)
                std::this_thread::sleep_for(std::chrono::milliseconds(
                    ++taken == lists[2].size() - 1 ? 300 : 10));
              return okStatus();
            });
        EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status.message();
      });
}

TEST(SharedRegions, KnowWhoHasEnded) {
  constexpr int kProcesses = 4;
  Mailbox mail;
  std::barrier meeting(kProcesses);
  const std::vector<std::size_t> bytes(kProcesses, 4096);
  onEachRank(Mesh({{"row", kProcesses}}), [&](int rank) {
    OneOfMany control(mail, rank, kProcesses, /*perMachine=*/3);
    auto regions = SharedRegions::create(control, bytes);
    ASSERT_TRUE(regions.ok()) << regions.status().message();
    for (int other = 0; other != kProcesses; ++other) {
      if (other == rank)
        continue;
      EXPECT_EQ((*regions)->areShared(rank, other), rank / 3 == other / 3);
      EXPECT_EQ((*regions)->of(other).empty(), rank / 3 != other / 3);
    }
    EXPECT_TRUE(rank == 3 || (*regions)->isAlive((rank + 1) % 3));
    meeting.arrive_and_wait();
    if (rank == 1)
      regions->reset();
    meeting.arrive_and_wait();
    if (rank == 0) {
      EXPECT_FALSE((*regions)->isAlive(1));
      EXPECT_TRUE((*regions)->isAlive(2));
    }
    meeting.arrive_and_wait();
  });
}

TEST(SharedRegions, TooMuchMemoryIsAMessageOfAll) {
  Mailbox mail;
  const std::vector<std::size_t> bytes{4096, std::size_t(1) << 63};
  onEachRank(Mesh({{"row", 2}}), [&](int rank) {
    OneOfMany control(mail, rank, 2);
    const Status status = SharedRegions::create(control, bytes).status();
    EXPECT_EQ(status.code(), StatusCode::Unavailable);
    EXPECT_THAT(status.message(),
                testing::HasSubstr(
                    "cannot make 9223372036854775808 bytes of memory: "));
  });
}
