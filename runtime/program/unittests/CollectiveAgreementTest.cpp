//===- CollectiveAgreementTest.cpp - That ranks start the same ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/CollectiveAgreement.h"

#include "optimus-testing/ProgramWriter.h"

#include <barrier>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace optrt;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// The messages between processes, here threads of a test.
struct Exchange {
  explicit Exchange(int size) : texts(size), barrier(size) {}
  std::vector<std::string> texts;
  std::barrier<> barrier;
};

/// One of these processes, with one rank.
class ThreadControl final : public ControlPlane {
public:
  ThreadControl(Exchange &messages, int rank)
      : messages(messages), rank(rank) {}
  Status layOut(const optimus_support::Mesh &) override { return okStatus(); }
  int size() const override { return static_cast<int>(messages.texts.size()); }
  int firstRank() const override { return rank; }
  int numLocalRanks() const override { return 1; }
  std::vector<std::string> allGather(const std::string &own) override {
    ++numGathers;
    messages.texts[rank] = own;
    messages.barrier.arrive_and_wait();
    std::vector<std::string> all = messages.texts;
    messages.barrier.arrive_and_wait();
    return all;
  }
  Status exchange(int, std::span<const float>, int, std::span<float>) override {
    return okStatus();
  }
  RankActivity &activity(int) override { return ownActivity; }
  Status watch(WatchOptions) override { return okStatus(); }
  [[noreturn]] void exitJob(int code) override { std::_Exit(code); }

  int numGathers = 0;

private:
  Exchange &messages;
  const int rank;
  RankActivity ownActivity;
};

const optimus_support::Mesh kMesh({{"row", 2}, {"col", 2}});

/// A library of which function "f" reduces so many elements, one after the
/// other.
ProgramsT library(uint32_t axis, const std::vector<int64_t> &elements) {
  ProgramWriter programs(kMesh);
  FunctionWriter f = programs.function("f");
  View x = f.argument(ElementType::F32, 64);
  for (int64_t count : elements) {
    f.from("h." + std::to_string(count), "x.py:3");
    View part = f.at(x, 0, count);
    f.wait(f.collective(CollectiveKind::AllReduce, {axis}, part, part));
  }
  return programs.finish();
}

/// What each of four processes, with libraries of their own, agrees on.
std::vector<Status> agree(std::vector<ProgramsT> libraries,
                          int *numGathers = nullptr) {
  Exchange exchange(4);
  std::vector<Status> outcomes(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank != 4; ++rank)
    threads.emplace_back([&, rank] {
      ThreadControl control(exchange, rank);
      const std::string functions[] = {"f"};
      outcomes[rank] = agreeOnCollectives(
          control, *libraries[rank].targets.front(), kMesh, functions);
      if (numGathers && rank == 0)
        *numGathers = control.numGathers;
    });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

std::vector<ProgramsT> libraries(uint32_t axis,
                                 std::vector<std::vector<int64_t>> elements) {
  std::vector<ProgramsT> all;
  for (const std::vector<int64_t> &of : elements)
    all.push_back(library(axis, of));
  return all;
}

TEST(CollectiveAgreement, TakesOneExchangeWhereAllAreAlike) {
  int numGathers = 0;
  for (const Status &status :
       agree(libraries(0, {{8, 16}, {8, 16}, {8, 16}, {8, 16}}), &numGathers))
    EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(numGathers, 1);
}

TEST(CollectiveAgreement, NamesTheFirstThatDiffersInEveryProcess) {
  // 1 and 3 are the ranks of a group of `row`.
  for (const Status &status :
       agree(libraries(0, {{8, 16}, {8, 16}, {8, 16}, {8, 4}}))) {
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_EQ(
        status.message(),
        "ranks 1 and 3 start different collectives: number 2 of f on mesh "
        "axis row is h.16 (all_reduce, x.py:3), command 2, all_reduce of "
        "1x16 f32, on rank 1, and h.4 (all_reduce, x.py:3), command 2, "
        "all_reduce of 1x4 f32, on rank 3; copy the same model library "
        "to every host");
  }
}

TEST(CollectiveAgreement, ARankThatStartsNothingDiffers) {
  for (const Status &status : agree(libraries(1, {{8}, {}, {8}, {8}})))
    EXPECT_THAT(status.message(), HasSubstr("on rank 0, and none, on rank 1"));
}

TEST(CollectiveAgreement, RanksOfDifferentGroupsMayDiffer) {
  for (const Status &status :
       agree(libraries(1, {{8, 16}, {8, 16}, {16, 8}, {16, 8}})))
    EXPECT_TRUE(status.ok()) << status.message();
}

} // namespace
