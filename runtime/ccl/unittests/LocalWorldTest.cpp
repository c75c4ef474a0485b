//===- LocalWorldTest.cpp - Failures among thread ranks -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/World.h"

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
  return {OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, count, count, count};
}

std::unique_ptr<World> makeWorld(int64_t ranks) {
  std::unique_ptr<World> world = createLocalWorld();
  EXPECT_TRUE(world->configure(std::vector<int64_t>{ranks}).ok());
  return world;
}

TEST(LocalWorld, RanksLeaveTheirWaitsWhenAnotherFails) {
  std::unique_ptr<World> world = makeWorld(4);
  std::vector<Status> outcomes(4);
  std::vector<std::thread> threads;
  // Rank 3 never comes.
  for (int rank = 0; rank != 3; ++rank)
    threads.emplace_back([&, rank] {
      float value = 1;
      Communicator &comm = world->communicator(rank, 0);
      outcomes[rank] = comm.start(0, allReduce(1), &value, &value);
      if (outcomes[rank].ok())
        outcomes[rank] = comm.wait(0);
    });
  // Long enough that they block, whatever the scheduler does: the outcome is
  // the same when they have not.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  world->abort();
  for (std::thread &thread : threads)
    thread.join();
  for (int rank = 0; rank != 3; ++rank)
    EXPECT_THAT(outcomes[rank].message(), HasSubstr("another rank failed"));
}

TEST(LocalWorld, StartsFailAfterAnAbort) {
  std::unique_ptr<World> world = makeWorld(2);
  world->abort();
  float value = 1;
  EXPECT_FALSE(
      world->communicator(0, 0).start(0, allReduce(1), &value, &value).ok());
}

TEST(LocalWorld, NamesTheCommandsWhereRanksDisagree) {
  std::unique_ptr<World> world = makeWorld(2);
  std::vector<Status> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank != 2; ++rank)
    threads.emplace_back([&, rank] {
      std::vector<float> values(8);
      Communicator &comm = world->communicator(rank, 0);
      uint32_t id = 10 + rank;
      ASSERT_TRUE(
          comm.start(id, allReduce(8), values.data(), values.data()).ok());
      outcomes[rank] = comm.wait(id);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &outcome : outcomes) {
    EXPECT_EQ(outcome.code(), StatusCode::Internal);
    EXPECT_THAT(outcome.message(), HasSubstr("command 10"));
    EXPECT_THAT(outcome.message(), HasSubstr("command 11"));
  }
}

TEST(LocalWorld, MaximumKeepsNaN) {
  std::unique_ptr<World> world = makeWorld(3);
  std::vector<float> results(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank != 3; ++rank)
    threads.emplace_back([&, rank] {
      float own = rank == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
      optrt_collective_desc desc{OPTRT_ALL_REDUCE, OPTRT_MAX, 0, 0, 1, 1, 1, 1};
      Communicator &comm = world->communicator(rank, 0);
      EXPECT_TRUE(comm.start(0, desc, &own, &results[rank]).ok());
      EXPECT_TRUE(comm.wait(0).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (float result : results)
    EXPECT_TRUE(std::isnan(result));
}

TEST(LocalWorld, RefusesAWaitWithoutStart) {
  std::unique_ptr<World> world = makeWorld(1);
  Status status = world->communicator(0, 0).wait(7);
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(), HasSubstr("command 7"));
}

TEST(LocalWorld, RefusesMoreInFlightThanItHasSlots) {
  std::unique_ptr<World> world = makeWorld(1);
  Communicator &comm = world->communicator(0, 0);
  float value = 1;
  for (uint32_t id = 0; id != Communicator::kMaxInFlight; ++id)
    ASSERT_TRUE(comm.start(id, allReduce(1), &value, &value).ok());
  EXPECT_FALSE(comm.start(99, allReduce(1), &value, &value).ok());
  for (uint32_t id = 0; id != Communicator::kMaxInFlight; ++id)
    ASSERT_TRUE(comm.wait(id).ok());
  EXPECT_TRUE(comm.start(99, allReduce(1), &value, &value).ok());
  EXPECT_TRUE(comm.wait(99).ok());
}

TEST(World, AStatusTravelsAsText) {
  EXPECT_TRUE(World::decode(World::encode(okStatus())).ok());
  for (const Status &sent : {unavailable("no room; 7 bytes"), internal("")}) {
    Status got = World::decode(World::encode(sent));
    EXPECT_EQ(got.code(), sent.code());
    EXPECT_EQ(got.message(), sent.message());
  }
  for (const char *text :
       {"x", "7 what", "-1 what", "0 fine", "3", "99999999999999 x"})
    EXPECT_THAT(World::decode(text).message(), HasSubstr("do not understand"))
        << text;
}

TEST(LocalWorld, AgreesOnItsOwnStatus) {
  std::unique_ptr<World> world = makeWorld(2);
  EXPECT_TRUE(world->agree(okStatus()).ok());
  Status status = world->agree(dataLoss("torn"));
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_EQ(status.message(), "torn");
}

} // namespace
