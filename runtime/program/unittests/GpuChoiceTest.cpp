//===- GpuChoiceTest.cpp - Which GPU each rank computes on ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/GpuChoice.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// One process of a job, with the others' words known.
class OneProcess final : public ControlPlane {
public:
  /// `ranks` of each process, and which this is.
  OneProcess(std::vector<int> ranks, std::vector<std::string> gpus, int index)
      : ranks(std::move(ranks)), gpus(std::move(gpus)), index(index) {}

  Status layOut(const optimus_support::Mesh &) override { return okStatus(); }
  int size() const override { return countBefore(int(ranks.size())); }
  int firstRank() const override { return countBefore(index); }
  int numLocalRanks() const override { return ranks[index]; }
  std::vector<std::string> allGather(const std::string &own) override {
    // Then they agree, of which only this one's mind is known.
    if (std::exchange(hasGathered, true))
      return {own};
    std::vector<std::string> all;
    for (size_t i = 0; i != ranks.size(); ++i)
      all.push_back(concat(ranks[i], " ", gpus[i]));
    EXPECT_EQ(all[index], own);
    return all;
  }
  Status exchange(int, std::span<const float>, int, std::span<float>) override {
    return okStatus();
  }
  RankActivity &activity(int) override { return idle; }
  Status watch(WatchOptions) override { return okStatus(); }
  [[noreturn]] void exitJob(int code) override { std::exit(code); }

private:
  int countBefore(int process) const {
    int count = 0;
    for (int i = 0; i != process; ++i)
      count += ranks[i];
    return count;
  }

  const std::vector<int> ranks;
  const std::vector<std::string> gpus;
  const int index;
  bool hasGathered = false;
  RankActivity idle;
};

const std::vector<std::string> kHere = {"a", "b"};

TEST(GpuChoice, ThreadsShareOutWhatTheirProcessSees) {
  OneProcess control({2}, {"a,b"}, 0);
  EXPECT_THAT(*chooseGpus(control, kHere), ElementsAre(0, 1));
}

TEST(GpuChoice, ProcessesOfAHostShareOutItsGpus) {
  OneProcess first({1, 1, 1, 1}, {"a,b", "c,d", "a,b", "c,d"}, 0),
      second({1, 1, 1, 1}, {"a,b", "c,d", "a,b", "c,d"}, 2);
  EXPECT_THAT(*chooseGpus(first, kHere), ElementsAre(0));
  EXPECT_THAT(*chooseGpus(second, kHere), ElementsAre(1));
}

TEST(GpuChoice, WhoSeesOneTakesIt) {
  OneProcess control({1, 1}, {"a", "b"}, 1);
  const std::string only[] = {"b"};
  EXPECT_THAT(*chooseGpus(control, only), ElementsAre(0));
}

TEST(GpuChoice, TooFewAreToldWithWhatToDo) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  OneProcess control({1, 1, 1}, {"a,b", "a,b", "a,b"}, 0);
  auto chosen = chooseGpus(control, kHere);
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), StatusCode::InvalidArgument);
  EXPECT_THAT(chosen.status().message(),
              HasSubstr("expected a GPU for each of the 3 ranks on this host; "
                        "found that the driver shows 2; start at most 2 here"));
}

} // namespace
