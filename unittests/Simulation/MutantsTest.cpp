//===- MutantsTest.cpp - Clusters and what-ifs that nobody wrote ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The inputs of scripts/fuzz, a fixed number of them in every run of the tests,
// those under sanitizers too.
//
//===----------------------------------------------------------------------===//

#include "SimulationInputs.h"
#include "TokenMutator.h"

#include <gtest/gtest.h>

using namespace optimus_simulation;

namespace {

/// How many of 1,000 mutants are simulated; the others are refused.
template <typename Try>
int countSimulated(const std::string &text, Try tryOne) {
  int count = 0;
  for (uint32_t seed = 0; seed != 1000; ++seed)
    count += tryOne(optimus_fuzz::mutate(text, seed));
  return count;
}

void expectSomeOfEach(int simulated) {
  EXPECT_GT(simulated, 50);
  EXPECT_LT(simulated, 950);
}

TEST(Mutants, OfClusters) {
  Cluster cluster = *loadCluster("h100");
  cluster.switches = {{2, 4}};
  cluster.tile = {{"ranks", 4}};
  cluster.pcie = {2, 3e10, PcieTree::OnRoot};
  cluster.sockets = {4, {6e10, 1e-6}};
  ASSERT_TRUE(optimus_fuzz::tryCluster(printCluster(cluster)));
  expectSomeOfEach(
      countSimulated(printCluster(cluster), optimus_fuzz::tryCluster));
  // Without messages, and with ranks by a list.
  cluster.tile.clear();
  for (int64_t rank = 0; rank != 16; ++rank)
    cluster.devices.push_back(5 * rank % 16);
  cluster.measured.push_back({.backend = "",
                              .collective = "all_reduce",
                              .ranks = 16,
                              .alpha = 0,
                              .beta = 0,
                              .points = {{1024, 1e-5}, {1048576, 1e-3}},
                              .machines = 2});
  ASSERT_TRUE(optimus_fuzz::tryCluster(printCluster(cluster)));
  expectSomeOfEach(
      countSimulated(printCluster(cluster), optimus_fuzz::tryCluster));
}

TEST(Mutants, OfWhatIfs) {
  constexpr const char *kChanges = "# of the next machine\n"
                                   "scale all_*=0.5\n"
                                   "scale gemm=2 # slower\n"
                                   "remove h.*\n"
                                   "insert rank=3/all_reduce=20us\n"
                                   "fuse launch\n"
                                   "bucket reduce=25MiB\n"
                                   "priority all_*\n"
                                   "straggler 1=2\n"
                                   "straggler 1=1e3\n"
                                   "straggler spread=0.1,seed=7\n"
                                   "device h200x8\n"
                                   "network bandwidth=4,latency=0.25\n"
                                   "overlap none\n";
  ASSERT_TRUE(optimus_fuzz::tryWhatIf(kChanges));
  expectSomeOfEach(countSimulated(kChanges, optimus_fuzz::tryWhatIf));
}

} // namespace
