//===- GpuProfileTest.cpp - Machine profiles of GPUs ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CostModel.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using mlir::exec::CollectiveKind;
using mlir::optimus::CostModel;
using mlir::optimus::MachineProfile;

namespace {

MachineProfile load(llvm::StringRef name) {
  auto profile = MachineProfile::load(name);
  EXPECT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
  return profile ? *profile : MachineProfile();
}

std::string errorIn(const std::string &members) {
  auto profile =
      MachineProfile::parse("{\"version\": 1, " + members + "}", "test");
  return profile ? "" : llvm::toString(profile.takeError());
}

TEST(KnownProfiles, SayOfWhichGpu) {
  EXPECT_EQ(load("h100x8").gpu->name, "NVIDIA H100 80GB HBM3 (SXM)");
  EXPECT_GT(load("h200").gpu->getUsableBytes(),
            load("h100").gpu->getUsableBytes());
  EXPECT_EQ(load("a100x4").tiers.front().ranks, 4);
  EXPECT_EQ(load("a100").tiers.front().ranks, 1);
  EXPECT_EQ(load("h100x8").backend, "nccl");
  EXPECT_FALSE(load("").gpu);
}

TEST(KnownProfiles, NamesThatAreNoneAreToldApart) {
  auto wrong = MachineProfile::load("h10x8");
  ASSERT_FALSE(bool(wrong));
  EXPECT_EQ(llvm::toString(wrong.takeError()),
            "machine profile 'h10x8': no such file, and no profile that is "
            "known; known are a100, h100, h200, and nodes of 2, 4 or 8 of "
            "them, as h100x8; did you mean 'h100x8'?");
  // What looks like a file is one.
  auto missing = MachineProfile::load("./h100x8");
  ASSERT_FALSE(bool(missing));
  EXPECT_EQ(llvm::toString(missing.takeError()).find("known"),
            std::string::npos);
}

TEST(GpuProfile, PricesFactorsByTheirType) {
  mlir::MLIRContext context;
  mlir::Builder b(&context);
  CostModel costs(load("h100"), 1);
  auto seconds = [&](mlir::Type type) {
    return costs.getGemmSeconds(2048, 2048, 13312, false, false, type);
  };
  // The best product that was found has 794.5 TFLOP/s.
  EXPECT_NEAR(seconds(b.getBF16Type()), 1.406e-4, 1e-6);
  EXPECT_DOUBLE_EQ(seconds(b.getF16Type()), seconds(b.getBF16Type()));
  EXPECT_DOUBLE_EQ(seconds(b.getF32Type()), seconds({}));
  // Of tensor cores' 990 TFLOP/s against 47.
  EXPECT_GT(seconds({}), 15 * seconds(b.getBF16Type()));
}

TEST(GpuProfile, AttentionOfCudnnHasARateOfItsOwn) {
  auto rates = [](const std::string &members) {
    auto profile = MachineProfile::parse(
        "{\"version\": 1, \"gemm\": [{" + members + "}]}", "test");
    EXPECT_TRUE(bool(profile)) << llvm::toString(profile.takeError());
    return profile->computes.front();
  };
  auto both = rates(R"("attention_flops_per_s": 2,
      "attention": [{"seq": 8, "head_dim": 8, "seconds": 1}],
      "attention_cudnn_flops_per_s": 3,
      "attention_cudnn": [{"seq": 4, "head_dim": 8, "seconds": 1}])");
  EXPECT_EQ(both.attention.flopsPerSecond, 2);
  EXPECT_EQ(both.attention.points.front().seq, 8);
  EXPECT_EQ(both.getLibraryAttention().flopsPerSecond, 3);
  EXPECT_EQ(both.getLibraryAttention().points.front().seq, 4);
  auto one = rates(R"("attention_flops_per_s": 2)");
  EXPECT_EQ(one.getLibraryAttention().flopsPerSecond, 2);
  auto points = rates(R"("attention_flops_per_s": 2, "attention_cudnn": [])");
  EXPECT_EQ(points.getLibraryAttention().flopsPerSecond, 2);
  // A step with 124 M parameters: 12 layers of 7 products.
  double flops = 12.0 * 7 * 64 * 12 * 1024 * 1024 * 64;
  EXPECT_NEAR(flops / load("h100")
                          .computes.front()
                          .getRates("bf16")
                          .getLibraryAttention()
                          .flopsPerSecond,
              15e-3, 1e-3);
}

TEST(GpuProfile, AnAllReduceOfANodeIsWhatNcclMeasured) {
  CostModel costs(load("h200x8"), 8);
  constexpr double kGi = 1 << 30;
  double seconds =
      costs.getCollectiveSeconds(CollectiveKind::AllReduce, {8}, 16 * kGi);
  EXPECT_NEAR(2.0 * 7 / 8 * 16 * kGi / seconds / 1e9, 482.26, 0.5);
  EXPECT_NEAR(costs.getCollectiveSeconds(CollectiveKind::AllReduce, {8}, 4),
              20e-6, 1e-9);
}

TEST(GpuProfile, RanksOfOtherNodesAreFarther) {
  MachineProfile profile = load("h100x8");
  CostModel costs(profile, 64);
  const auto &near = profile.tiers[0], &far = profile.tiers[1];
  auto gather = [&](int64_t ranks, int64_t stride, double bytes) {
    return costs.getCollectiveSeconds(CollectiveKind::AllGather,
                                      {ranks, stride}, bytes);
  };
  // Eight that follow each other share a node; eight that lie eight apart are
  // in eight nodes, with a card each.
  EXPECT_DOUBLE_EQ(gather(8, 1, 8e9),
                   3 * near.alpha + 7.0 / 8 * 8e9 * near.beta);
  EXPECT_DOUBLE_EQ(gather(8, 8, 8e9), 3 * far.alpha + 7.0 / 8 * 8e9 * far.beta);
  // Two nodes of eight: eight cards carry it together.
  EXPECT_DOUBLE_EQ(gather(16, 1, 16e9),
                   3 * near.alpha + far.alpha +
                       15.0 / 16 * 16e9 * std::max(near.beta, far.beta / 8));
  // Every second rank, of which a node has four.
  EXPECT_DOUBLE_EQ(gather(8, 2, 8e9),
                   2 * near.alpha + far.alpha +
                       7.0 / 8 * 8e9 * std::max(near.beta, far.beta / 4));
}

TEST(GpuProfile, HostsAreBehindPcie) {
  for (const char *name : {"a100x8", "h100", "h200x8"}) {
    MachineProfile profile = load(name);
    ASSERT_TRUE(profile.hostLink) << name;
    // x16 of PCIe 4.0 carries 32 GB/s a direction, of 5.0 twice that.
    double most = llvm::StringRef(name).starts_with("a") ? 31.5e9 : 63e9;
    for (double rate : {profile.hostLink->in, profile.hostLink->out}) {
      EXPECT_LT(rate, most);
      EXPECT_GT(rate, 0.75 * most);
    }
  }
}

TEST(GpuProfile, NamesWhatIsWrong) {
  auto expect = [](const char *members, const char *message) {
    EXPECT_NE(errorIn(members).find(message), std::string::npos)
        << errorIn(members);
  };
  expect(R"("gpu": [])", "gpu: expected an object");
  expect(R"("gpu": {"memory_bytes": 1})", "gpu: no member \"name\"");
  expect(R"("gpu": {"name": "g"})", "gpu: no member \"memory_bytes\"");
  expect(R"("gpu": {"name": "g", "memory_bytes": 8, "reserved_bytes": 8})",
         "gpu.reserved_bytes: expected less than memory_bytes");
  expect(R"("host_link": 1)", "host_link: expected an object");
  expect(R"("host_link": {"in_bytes_per_s": 1})",
         "host_link: no member \"out_bytes_per_s\"");
  expect(R"("host_link": {"in_bytes_per_s": 0, "out_bytes_per_s": 1})",
         "host_link.in_bytes_per_s: expected more than 0");
  expect(R"("links": [{"ranks": 8, "alpha_s": 1}])",
         "links[0]: no member \"beta_s_per_byte\"");
  expect(R"("links": [{"ranks": 8, "alpha_s": 0, "beta_s_per_byte": 0},
                      {"ranks": 12, "alpha_s": 0, "beta_s_per_byte": 0}])",
         "links[1].ranks: expected a multiple of the ranks that the links "
         "before join");
  const std::string gpu = R"("gpu": {"name": "g", "memory_bytes": 8}, )";
  expect(R"("interference": {"source": "s"})",
         "interference: expected none without gpu: ranks on processors share "
         "cores");
  expect((gpu + R"("interference": {"computing": {"gemm": 2}})").c_str(),
         "interference: no member \"source\"");
  expect((gpu + R"("interference": {"source": ""})").c_str(),
         "interference.source: expected who measured the factors");
  expect((gpu + R"("interference": {"source": "s", "computing": {"gem": 2}})")
             .c_str(),
         "interference.computing: nothing is known of 'gem'; did you mean "
         "'gemm'?");
  expect((gpu +
          R"("interference": {"source": "s", "collectives": {"reduce": 0.5}})")
             .c_str(),
         "interference.collectives.reduce: expected a factor from 1 to 100");
  expect(R"("gemm": [{"types": [{"flops_per_s": 1}]}])",
         "gemm[0].types[0]: no member \"type\"");
  expect(R"("gemm": [{"types": [{"type": "f64"}]}])",
         "gemm[0].types[0].type: expected bf16, f16 or tf32");
  expect(R"("gemm": [{"types": [{"type": "bf16", "flops_per_s": 0}]}])",
         "gemm[0].types[0].flops_per_s: expected more than 0");
  expect(R"("gemm": [{"half_m": -1}])", "gemm[0].half_m: ");
  expect(R"("gemm": [{"attention_cudnn_flops_per_s": 0}])",
         "gemm[0].attention_cudnn_flops_per_s: expected more than 0");
  expect(R"("gemm": [{"attention_cudnn": [{"seq": 8}]}])",
         "gemm[0].attention_cudnn[0]: no member \"head_dim\"");
}

} // namespace
