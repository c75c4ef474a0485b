//===- CoreShareTest.cpp - The cores of a rank ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CoreShare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using optimus_support::CpuQuota;
using optimus_support::ResourceLimits;

namespace {

std::string process(const std::string &machine, std::set<int> cores,
                    std::vector<CpuQuota> quotas = {}, int ranks = 1) {
  ResourceLimits limits;
  limits.machine = machine;
  limits.cores = std::move(cores);
  limits.quotas = std::move(quotas);
  return encodeCores(limits, ranks);
}

CoreShare shareOf(const std::vector<std::string> &all, size_t own) {
  StatusOr<CoreShare> share = shareCores(all, own);
  EXPECT_TRUE(share.ok()) << share.status().message();
  return share.ok() ? *share : CoreShare();
}

const std::set<int> kEight = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(CoreShare, RanksOfOneProcessShareItsCores) {
  const CoreShare share = shareOf({process("a", kEight, {}, 3)}, 0);
  EXPECT_EQ(share.cores, 8);
  EXPECT_EQ(share.ranks, 3);
  EXPECT_EQ(share.coresPerRank(), 2);
  EXPECT_EQ(shareOf({process("a", {1}, {}, 3)}, 0).coresPerRank(), 1);
}

TEST(CoreShare, ProcessesOfAMachineShareItsCores) {
  const std::vector<std::string> all = {
      process("a", kEight), process("b", kEight), process("a", kEight)};
  EXPECT_EQ(shareOf(all, 0).coresPerRank(), 4);
  EXPECT_EQ(shareOf(all, 1).coresPerRank(), 8);
}

/// As a launcher binds them: no core is another's.
TEST(CoreShare, BoundProcessesHaveTheirOwn) {
  const std::vector<std::string> all = {process("a", {0, 1, 2, 3}),
                                        process("a", {4, 5, 6, 7})};
  EXPECT_EQ(shareOf(all, 0).ranks, 1);
  EXPECT_EQ(shareOf(all, 1).coresPerRank(), 4);
}

/// As a container binds them: to fewer than the machine's, all to the same.
TEST(CoreShare, ProcessesInACpusetShareIt) {
  const std::vector<std::string> all(4, process("a", {0, 1, 2, 3}));
  EXPECT_EQ(shareOf(all, 2).coresPerRank(), 1);
  EXPECT_EQ(shareOf(all, 2).ranks, 4);
}

TEST(CoreShare, TheScarcestDecides) {
  const CpuQuota pod{6, "1:1", "/pod/cpu.max"}, a{2, "1:2", "/pod/a/cpu.max"},
      b{5, "1:3", "/pod/b/cpu.max"};
  const std::vector<std::string> all = {
      process("m", kEight, {a, pod}), process("m", kEight, {b, pod}),
      process("m", kEight), process("other", kEight, {pod})};
  const CoreShare first = shareOf(all, 0);
  EXPECT_EQ(first.coresPerRank(), 2);
  // 8 cores for 3 ranks are fewer than 6 for 2, and than 5 alone.
  EXPECT_EQ(first.file, "/pod/a/cpu.max") << first.cores << " " << first.ranks;
  EXPECT_EQ(shareOf(all, 1).file, "");
  EXPECT_EQ(shareOf(all, 1).coresPerRank(), 2);
  EXPECT_EQ(shareOf(all, 2).coresPerRank(), 2);
  // The same number on another machine is another group.
  EXPECT_EQ(shareOf(all, 3).coresPerRank(), 6);
  EXPECT_EQ(shareOf(all, 3).ranks, 1);
}

TEST(CoreShare, RanksShareAQuota) {
  const CpuQuota quota{1.5, "1:1", "/job/cpu.max"};
  const std::vector<std::string> all(2, process("m", kEight, {quota}));
  EXPECT_EQ(shareOf(all, 0).cores, 2);
  EXPECT_EQ(shareOf(all, 0).coresPerRank(), 1);
  EXPECT_EQ(shareOf(all, 0).file, "/job/cpu.max");
}

TEST(CoreShare, WhatNobodyUnderstandsIsRefused) {
  for (const char *text : {"", "7", "{}", R"({"ranks": "x"})"}) {
    const std::string all[] = {process("m", {0}), text};
    EXPECT_EQ(shareCores(all, 0).status().code(), StatusCode::Internal) << text;
  }
}

} // namespace
