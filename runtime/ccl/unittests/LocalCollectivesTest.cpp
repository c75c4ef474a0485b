//===- LocalCollectivesTest.cpp - Failures among thread ranks -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveWorlds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

using namespace optrt;
using testing::HasSubstr;

namespace {

constexpr optrt_collective_desc allReduce(int64_t count) {
  return {OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, count, count, count, OPTRT_F32};
}

World makeWorld(int64_t ranks) {
  World world = createLocalWorld();
  EXPECT_TRUE(world.layOut(optimus_support::Mesh({{"row", ranks}})).ok());
  return world;
}

TEST(LocalCollectives, RanksLeaveTheirWaitsWhenAnotherFails) {
  World world = makeWorld(4);
  std::vector<Status> outcomes(4);
  std::vector<std::thread> threads;
  // Rank 3 never comes.
  for (int rank = 0; rank != 3; ++rank)
    threads.emplace_back([&, rank] {
      float value = 1;
      Communicator &comm = world.collectives->communicator(rank, 0);
      outcomes[rank] = comm.start({0}, allReduce(1), &value, &value);
      if (outcomes[rank].ok())
        outcomes[rank] = comm.wait({0});
    });
  // Long enough that they block, whatever the scheduler does: the outcome is
  // the same when they have not.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  world.collectives->abort(unavailable("a test"));
  for (std::thread &thread : threads)
    thread.join();
  for (int rank = 0; rank != 3; ++rank)
    EXPECT_THAT(outcomes[rank].message(), HasSubstr("another rank failed"));
}

TEST(LocalCollectives, StartsFailAfterAnAbort) {
  World world = makeWorld(2);
  world.collectives->abort(unavailable("a test"));
  float value = 1;
  EXPECT_FALSE(world.collectives->communicator(0, 0)
                   .start({0}, allReduce(1), &value, &value)
                   .ok());
}

TEST(LocalCollectives, NamesTheCommandsWhereRanksDisagree) {
  World world = makeWorld(2);
  world.control->nameCommands([](int rank, CommandId command) {
    return concat("h.", rank, " (", command.number, ")");
  });
  std::vector<Status> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank != 2; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<float> values(8);
      Communicator &comm = world.collectives->communicator(rank, 0);
      const CommandId id{uint32_t(10 + rank)};
      ASSERT_TRUE(
          comm.start(id, allReduce(8), values.data(), values.data()).ok());
      outcomes[rank] = comm.wait(id);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &outcome : outcomes) {
    EXPECT_EQ(outcome.code(), StatusCode::Internal);
    EXPECT_EQ(
        outcome.message(),
        "ranks disagree: rank 0 runs h.0 (10), all_reduce from or to 0 of "
        "1x8 of f32 where rank 1 runs h.1 (11), all_reduce from or to 0 of "
        "1x8 of f32");
  }
}

TEST(LocalCollectives, NamesTheCommandsOfAMessageOfTwoSizes) {
  World world = makeWorld(2);
  world.control->nameCommands([](int rank, CommandId command) {
    return concat("h.", rank, " (", command.number, ")");
  });
  std::vector<Status> outcomes(2);
  onRanks(world, [&](int rank) {
    std::vector<float> values(8);
    const optrt_collective_desc desc{rank ? OPTRT_RECEIVE : OPTRT_SEND,
                                     OPTRT_SUM,
                                     0,
                                     1 - rank,
                                     1,
                                     4 + rank,
                                     4 + rank,
                                     4 + rank,
                                     OPTRT_F32};
    Communicator &comm = world.collectives->communicator(rank, 0);
    const CommandId id{uint32_t(10 + rank)};
    ASSERT_TRUE(comm.start(id, desc, values.data(), values.data()).ok());
    outcomes[rank] = comm.wait(id);
  });
  for (const Status &outcome : outcomes)
    EXPECT_EQ(outcome.message(),
              "ranks disagree: rank 0 runs h.0 (10), send from or to 1 of 1x4 "
              "of f32 where rank 1 runs h.1 (11), receive from or to 0 of 1x5 "
              "of f32");
}

TEST(LocalCollectives, MessagesAreLeftWhenARankFails) {
  World world = makeWorld(2);
  float value = 1;
  const optrt_collective_desc desc{OPTRT_RECEIVE, OPTRT_SUM, 0, 1, 1, 1, 1, 1,
                                   OPTRT_F32};
  Communicator &comm = world.collectives->communicator(0, 0);
  ASSERT_TRUE(comm.start({1}, desc, nullptr, &value).ok());
  world.collectives->abort(unavailable("a test"));
  EXPECT_THAT(comm.wait({1}).message(), HasSubstr("another rank failed"));
  EXPECT_FALSE(comm.start({2}, desc, nullptr, &value).ok());
}

TEST(LocalCollectives, MaximumKeepsNaN) {
  World world = makeWorld(3);
  std::vector<float> results(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank != 3; ++rank)
    threads.emplace_back([&, rank] {
      float own = rank == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
      optrt_collective_desc desc{OPTRT_ALL_REDUCE, OPTRT_MAX, 0, 0, 1, 1, 1, 1,
                                 OPTRT_F32};
      Communicator &comm = world.collectives->communicator(rank, 0);
      EXPECT_TRUE(comm.start({0}, desc, &own, &results[rank]).ok());
      EXPECT_TRUE(comm.wait({0}).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (float result : results)
    EXPECT_TRUE(std::isnan(result));
}

TEST(LocalCollectives, RefusesAWaitWithoutStart) {
  World world = makeWorld(1);
  Status status = world.collectives->communicator(0, 0).wait({7});
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr("was not started"));
}

// Two functions may each have a command 3 that starts one.
TEST(LocalCollectives, TellsCommandsOfFunctionsApart) {
  World world = makeWorld(1);
  Communicator &comm = world.collectives->communicator(0, 0);
  float source[] = {1, 2}, result[] = {0, 0};
  for (uint32_t function : {0, 1})
    ASSERT_TRUE(comm.start({3, function}, allReduce(1), &source[function],
                           &result[function])
                    .ok());
  ASSERT_TRUE(comm.wait({3, 1}).ok());
  EXPECT_EQ(result[1], 2);
  EXPECT_FALSE(comm.wait({3, 1}).ok());
  EXPECT_TRUE(comm.wait({3, 0}).ok());
}

TEST(LocalCollectives, RefusesMoreInFlightThanItHasSlots) {
  World world = makeWorld(1);
  Communicator &comm = world.collectives->communicator(0, 0);
  float value = 1;
  for (uint32_t id = 0; id != Communicator::kMaxInFlight; ++id)
    ASSERT_TRUE(comm.start({id}, allReduce(1), &value, &value).ok());
  EXPECT_FALSE(comm.start({99}, allReduce(1), &value, &value).ok());
  for (uint32_t id = 0; id != Communicator::kMaxInFlight; ++id)
    ASSERT_TRUE(comm.wait({id}).ok());
  EXPECT_TRUE(comm.start({99}, allReduce(1), &value, &value).ok());
  EXPECT_TRUE(comm.wait({99}).ok());
}

} // namespace
