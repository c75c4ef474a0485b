//===- ControlPlaneTest.cpp - How processes agree -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/World.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

using namespace optrt;
using optimus_support::Mesh;
using testing::HasSubstr;

namespace {

/// Rank 0 of some processes; the others' words are the test's.
class ScriptedControl final : public ControlPlane {
public:
  Status layOut(const Mesh &mesh) override {
    EXPECT_EQ(mesh.numRanks(), size());
    return okStatus();
  }
  int size() const override { return static_cast<int>(others.size()) + 1; }
  int firstRank() const override { return 0; }
  int numLocalRanks() const override { return 1; }
  std::vector<std::string> allGather(const std::string &own) override {
    std::vector<std::string> all = {own};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }
  Status exchange(int, std::span<const float>, int, std::span<float>) override {
    return okStatus();
  }
  RankActivity &activity(int) override { return ownActivity; }
  Status watch(WatchOptions) override { return okStatus(); }
  [[noreturn]] void exitJob(int code) override { std::_Exit(code); }

  std::vector<std::string> others;
  RankActivity ownActivity;
};

TEST(ControlPlane, AStatusTravelsAsText) {
  EXPECT_TRUE(ControlPlane::decode(ControlPlane::encode(okStatus())).ok());
  for (const Status &sent : {unavailable("no room; 7 bytes"), internal("")}) {
    Status got = ControlPlane::decode(ControlPlane::encode(sent));
    EXPECT_EQ(got.code(), sent.code());
    EXPECT_EQ(got.message(), sent.message());
  }
  for (const char *text :
       {"x", "7 what", "-1 what", "0 fine", "3", "99999999999999 x"})
    EXPECT_THAT(ControlPlane::decode(text).message(),
                HasSubstr("do not understand"))
        << text;
}

TEST(ControlPlane, AgreesOnTheErrorOfTheLowestRank) {
  ScriptedControl control;
  control.others = {"", ControlPlane::encode(dataLoss("torn")),
                    ControlPlane::encode(internal("later"))};
  Status status = control.agree(okStatus());
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_EQ(status.message(), "torn");
  EXPECT_EQ(control.agree(unavailable("own")).message(), "own");
  control.others = {"", ""};
  EXPECT_TRUE(control.agree(okStatus()).ok());
}

TEST(ControlPlane, NamesWhatRanksHaveSetOtherwise) {
  ScriptedControl control;
  const Setting settings[] = {{"--lr", "0.1"}, {"--seed", "7"}};
  control.others = {"0.1\n7\n"};
  EXPECT_TRUE(control.checkSame(settings).ok());
  control.others = {"0.1\n7\n", "0.1\n8\n"};
  Status status = control.checkSame(settings);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("rank 2 and rank 0 disagree on --seed: 8 on rank 2, 7 "
                        "on rank 0"));
}

TEST(ControlPlane, ThreadRanksAgreeOnTheirOwnStatus) {
  std::unique_ptr<ControlPlane> control = createLocalControl();
  EXPECT_EQ(control->size(), 1);
  ASSERT_TRUE(control->layOut(Mesh({{"row", 2}, {"col", 3}})).ok());
  EXPECT_EQ(control->numLocalRanks(), 6);
  EXPECT_TRUE(control->agree(okStatus()).ok());
  EXPECT_EQ(control->agree(dataLoss("torn")).message(), "torn");
}

TEST(World, JoinsCollectivesWithAnotherControlPlane) {
  auto control = std::make_unique<ScriptedControl>();
  control->others = {"", ""};
  World world{std::move(control), createLocalCollectives()};
  ASSERT_TRUE(world.layOut(Mesh({{"row", 3}})).ok());
  std::vector<float> values = {1, 2, 4};
  std::vector<std::thread> threads;
  for (int rank = 0; rank != 3; ++rank)
    threads.emplace_back([&, rank] {
      Communicator &comm = world.collectives->communicator(rank, 0);
      optrt_collective_desc desc{OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, 1, 1, 1,
                                 OPTRT_F32};
      EXPECT_TRUE(comm.start({0}, desc, &values[rank], &values[rank]).ok());
      EXPECT_TRUE(comm.wait({0}).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(values, (std::vector<float>{7, 7, 7}));
}

TEST(World, FailsWhereAnotherProcessFails) {
  auto control = std::make_unique<ScriptedControl>();
  control->others = {ControlPlane::encode(unavailable("no thread"))};
  World world{std::move(control), createLocalCollectives()};
  EXPECT_EQ(world.layOut(Mesh({{"row", 2}})).message(), "no thread");
}

} // namespace
