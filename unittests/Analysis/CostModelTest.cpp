//===- CostModelTest.cpp - What a machine profile predicts ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CostModel.h"

#include <gtest/gtest.h>

using mlir::exec::CollectiveKind;
using mlir::optimus::CostModel;
using mlir::optimus::MachineProfile;

namespace {

MachineProfile parse(llvm::StringRef text) {
  auto profile = MachineProfile::parse(text, "test");
  EXPECT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  return profile ? *profile : MachineProfile();
}

std::string errorOf(llvm::StringRef text) {
  auto profile = MachineProfile::parse(text, "test");
  return profile ? "" : llvm::toString(profile.takeError());
}

constexpr const char *kGemm = R"({"version": 1, "gemm": [
    {"threads": 1, "cores": 4, "alpha_s": 1e-6, "points": [
      {"m": 64, "n": 64, "k": 64, "seconds": 2e-5},
      {"m": 512, "n": 512, "k": 512, "seconds": 4e-3}]}]})";

TEST(CostModel, MeetsWhatWasMeasured) {
  CostModel costs(parse(kGemm), /*numRanks=*/1);
  // The neighbour 9 squared octaves off in each extent, 27 in all, against
  // 1e-3 at the point: less than 1e-4 of the weight, on a logarithm below 2.
  EXPECT_NEAR(costs.getGemmSeconds(64, 64, 64, false, false), 2e-5, 2e-8);
  EXPECT_NEAR(costs.getGemmSeconds(512, 512, 512, false, false), 4e-3, 4e-6);
}

TEST(CostModel, InterpolatesProducts) {
  CostModel costs(parse(kGemm), 1);
  double small = costs.getGemmSeconds(64, 64, 64, false, false);
  double middle = costs.getGemmSeconds(128, 256, 128, false, false);
  double large = costs.getGemmSeconds(512, 512, 512, false, false);
  EXPECT_GT(middle, small);
  EXPECT_LT(middle, large);
  // Beyond what was measured, time goes with the operations.
  double beyond = costs.getGemmSeconds(2048, 2048, 512, false, false);
  EXPECT_NEAR(beyond / large, 16, 2);
}

TEST(CostModel, SharesCores) {
  MachineProfile profile = parse(kGemm);
  double alone = CostModel(profile, 4).getGemmSeconds(64, 64, 64, false, false);
  double crowd = CostModel(profile, 8).getGemmSeconds(64, 64, 64, false, false);
  EXPECT_DOUBLE_EQ(crowd, 2 * alone);
}

TEST(CostModel, ChoosesThreadsThatFit) {
  MachineProfile profile = parse(R"({"version": 1, "gemm": [
      {"threads": 1, "cores": 4, "alpha_s": 1},
      {"threads": 2, "cores": 4, "alpha_s": 2},
      {"threads": 4, "cores": 4, "alpha_s": 4}]})");
  auto alpha = [&](int64_t ranks) {
    return std::round(
        CostModel(profile, ranks).getGemmSeconds(1, 1, 1, false, false));
  };
  EXPECT_EQ(alpha(1), 4);
  EXPECT_EQ(alpha(2), 2);
  EXPECT_EQ(alpha(4), 1);
  EXPECT_EQ(alpha(8), 2); // one thread, at half the speed
}

TEST(CostModel, TakesWhatAsManyRanksMeasuredTogether) {
  MachineProfile profile = parse(R"({"version": 1, "gemm": [
      {"threads": 1, "ranks": 1, "cores": 4, "alpha_s": 1},
      {"threads": 1, "ranks": 4, "cores": 4, "alpha_s": 3}]})");
  auto alpha = [&](int64_t ranks) {
    return std::round(
        CostModel(profile, ranks).getGemmSeconds(1, 1, 1, false, false));
  };
  EXPECT_EQ(alpha(1), 1);
  EXPECT_EQ(alpha(4), 3);
  EXPECT_EQ(alpha(8), 6); // four at a time
  // Where eight were measured together, they shared the cores then.
  profile.computes = {profile.computes.back()};
  profile.computes.front().ranks = 8;
  EXPECT_EQ(alpha(8), 3);
  EXPECT_EQ(alpha(16), 6);
}

/// Ranks over TCP share the cores of the machine on which collectives found
/// them.
TEST(CostModel, RanksOnOneMachineShareItsCores) {
  MachineProfile profile = parse(R"({"version": 1, "gemm": [
      {"threads": 1, "ranks": 1, "cores": 2, "alpha_s": 1}],
    "comm": [{"backend": "tcp", "ranks": 4, "collective": "reduce",
      "alpha_s": 1, "beta_s_per_byte": 0, "points": [
        {"bytes": 4, "seconds": 1, "processor_s": 2}]}]})");
  auto alpha = [&](int64_t ranks) {
    return CostModel(profile, ranks).getGemmSeconds(1, 1, 1, false, false);
  };
  EXPECT_NEAR(alpha(4), 1, 1e-6);
  profile.collectives.front().machines = 1;
  EXPECT_NEAR(alpha(4), 2, 1e-6);
  EXPECT_NEAR(alpha(6), 3, 1e-6);
  profile.collectives.front().machines = 2;
  EXPECT_NEAR(alpha(8), 1, 1e-6);
  ASSERT_EQ(profile.collectives.front().processors.size(), 1u);
  EXPECT_EQ(profile.collectives.front().processors.front().second, 2);
}

constexpr const char *kComm = R"({"version": 1, "comm": [
    {"backend": "mpi", "ranks": 4, "collective": "broadcast",
     "alpha_s": 1e-5, "beta_s_per_byte": 1e-9, "points": [
       {"bytes": 1000, "seconds": 3e-5}, {"bytes": 3000, "seconds": 5e-5}]},
    {"backend": "nccl", "ranks": 4, "collective": "broadcast",
     "alpha_s": 1, "beta_s_per_byte": 1}]})";

TEST(CostModel, InterpolatesCollectives) {
  CostModel costs(parse(kComm), 4);
  auto seconds = [&](double bytes) {
    return costs.getCollectiveSeconds(CollectiveKind::Broadcast, {4}, bytes);
  };
  EXPECT_NEAR(seconds(10), 3e-5, 1e-12);
  EXPECT_NEAR(seconds(2000), 4e-5, 1e-12);
  // Beyond the points, the line.
  EXPECT_NEAR(seconds(1e6), 1e-5 + 1e-3, 1e-12);
}

TEST(CostModel, ScalesToOtherNumbersOfRanks) {
  MachineProfile profile = parse(kComm);
  CostModel costs(profile, 16);
  double four = costs.getCollectiveSeconds(CollectiveKind::Broadcast, {4}, 1e6);
  double sixteen =
      costs.getCollectiveSeconds(CollectiveKind::Broadcast, {16}, 1e6);
  // As links do: two hops more, and the same bytes.
  double link = profile.linkBeta * 1e6;
  EXPECT_DOUBLE_EQ(sixteen / four, (4 * profile.linkAlpha + link) /
                                       (2 * profile.linkAlpha + link));
  EXPECT_EQ(costs.getCollectiveSeconds(CollectiveKind::Broadcast, {1}, 1e6), 0);
}

TEST(CostModel, PricesWhatWasNotMeasuredByLinks) {
  CostModel costs(MachineProfile(), 4);
  MachineProfile link;
  double gather = costs.getCollectiveSeconds(CollectiveKind::AllGather, {4}, 4e6);
  EXPECT_DOUBLE_EQ(gather, 3 * link.linkAlpha + 3e6 * link.linkBeta);
  EXPECT_DOUBLE_EQ(
      costs.getCollectiveSeconds(CollectiveKind::AllReduce, {4}, 4e6),
      2 * gather);
}

TEST(CostModel, AxesHaveTheirLinksOrShareOne) {
  CostModel own(parse(R"({"version": 1})"), 4);
  EXPECT_NE(own.getLink("row"), own.getLink("col"));
  CostModel shared(parse(R"({"version": 1, "axes_share_link": true})"), 4);
  EXPECT_EQ(shared.getLink("row"), shared.getLink("col"));
}

TEST(MachineProfile, NamesWhatIsWrong) {
  EXPECT_NE(errorOf("[]").find("expected an object"), std::string::npos);
  EXPECT_NE(errorOf(R"({"version": 1, "comm": {}})").find("expected an array"),
            std::string::npos);
  std::string negative = errorOf(
      R"({"version": 1, "comm": [{"backend": "mpi", "ranks": 2,
          "collective": "reduce", "alpha_s": -1, "beta_s_per_byte": 1}]})");
  EXPECT_NE(negative.find("comm[0].alpha_s: expected a finite number from 0"),
            std::string::npos)
      << negative;
  EXPECT_NE(errorOf(R"({"version": 1, "axes_share_link": 1})")
                .find("axes_share_link: expected true or false"),
            std::string::npos);
  std::string alone = errorOf(
      R"({"version": 1, "comm": [{"backend": "mpi", "ranks": 1,
          "collective": "reduce", "alpha_s": 1, "beta_s_per_byte": 1}]})");
  EXPECT_NE(alone.find("comm[0].ranks: "), std::string::npos) << alone;
}

TEST(MachineProfile, NamesWhichPointIsWrong) {
  std::string negative = errorOf(
      R"({"version": 1, "comm": [{"backend": "mpi", "ranks": 2,
          "collective": "reduce", "alpha_s": 1, "beta_s_per_byte": 1,
          "points": [{"bytes": 4, "seconds": 1}, {"bytes": -4, "seconds": 1}]}]})");
  EXPECT_NE(
      negative.find("comm[0].points[1].bytes: expected a finite number from 0"),
      std::string::npos)
      << negative;
  std::string list = errorOf(
      R"({"version": 1, "comm": [{"backend": "mpi", "ranks": 2,
          "collective": "reduce", "alpha_s": 1, "beta_s_per_byte": 1,
          "points": [7]}]})");
  EXPECT_NE(list.find("comm[0].points[0]: expected an object, found 7"),
            std::string::npos)
      << list;
}

TEST(MachineProfile, NamesWhichFigureIsWrong) {
  auto errorIn = [](const std::string &entry) {
    return errorOf(R"({"version": 1, "gemm": [{)" + entry + "}]}");
  };
  auto expect = [&](const char *entry, const char *message) {
    EXPECT_NE(errorIn(entry).find(message), std::string::npos)
        << errorIn(entry);
  };
  expect(R"("ranks": 0)", "gemm[0].ranks: expected an integer from 1");
  expect(R"("cold_s_per_byte": -1)", "gemm[0].cold_s_per_byte: ");
  expect(R"("vector_ops_per_s": "many")", "gemm[0].vector_ops_per_s: ");
  expect(R"("streams": [{"bytes": 4}])",
         "gemm[0].streams[0]: no member \"bytes_per_s\"");
  expect(R"("streams": [{"bytes": 4, "bytes_per_s": 0}])",
         "gemm[0].streams[0].bytes_per_s: expected more than 0");
  expect(R"("columns": [{"bytes": 4, "bytes_per_s": 0}])",
         "gemm[0].columns[0].bytes_per_s: expected more than 0");
  expect(R"("packs": [{"rows": 8, "seconds": 1}])",
         "gemm[0].packs[0]: no member \"cols\"");
  expect(R"("packs": [{"rows": 8, "cols": 8, "seconds": 0}])",
         "gemm[0].packs[0].seconds: expected more than 0");
  expect(R"("attention": [{"seq": 8, "seconds": 1}])",
         "gemm[0].attention[0]: no member \"head_dim\"");
  expect(R"("attention": [{"seq": 8, "head_dim": 8, "seconds": 0}])",
         "gemm[0].attention[0].seconds: expected more than 0");
}

TEST(MachineProfile, RefusesWhatNoPredictionIsMadeFrom) {
  for (const char *rate : {"1e300", "1e-300", "1e999"})
    EXPECT_NE(errorOf(std::string(R"({"version": 1, "gemm": [{"alpha_s": )") +
                      rate + "}]}")
                  .find("gemm[0].alpha_s: "),
              std::string::npos)
        << rate;
}

TEST(MachineProfile, RefusesWhatIsNestedTooDeep) {
  std::string deep = errorOf(std::string(1000000, '['));
  EXPECT_NE(deep.find("machine profile 'test': values lie more than 64 deep"),
            std::string::npos)
      << deep;
}

} // namespace
