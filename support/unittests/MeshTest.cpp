//===- MeshTest.cpp - Named axes of devices -------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Mesh.h"

#include <gtest/gtest.h>

using namespace optimus_support;

TEST(Mesh, NumbersRanksWithTheFirstAxisSlowest) {
  Mesh mesh({{"row", 2}, {"col", 3}});
  ASSERT_EQ(mesh.numRanks(), 6);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      std::vector<int64_t> coordinates = {i, j};
      EXPECT_EQ(mesh.rank(coordinates), i * 3 + j);
      EXPECT_EQ(mesh.coordinates(i * 3 + j), coordinates);
      EXPECT_EQ(mesh.coordinate(i * 3 + j, 0), i);
      EXPECT_EQ(mesh.coordinate(i * 3 + j, 1), j);
    }
}

TEST(Mesh, CombinesAxesWithTheFirstListedSlowest) {
  Mesh mesh({{"data", 2}, {"row", 3}, {"col", 4}});
  std::vector<int> rowCol = {1, 2}, colData = {2, 0}, none;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    int64_t data = rank / 12, row = rank / 4 % 3, col = rank % 4;
    EXPECT_EQ(mesh.combinedIndex(rank, rowCol), row * 4 + col);
    EXPECT_EQ(mesh.combinedIndex(rank, colData), col * 2 + data);
    EXPECT_EQ(mesh.combinedIndex(rank, none), 0);
  }
  EXPECT_EQ(mesh.combinedSize(rowCol), 12);
  EXPECT_EQ(mesh.combinedSize(colData), 8);
  EXPECT_EQ(mesh.combinedSize(none), 1);
}

TEST(Mesh, FindsAxesByName) {
  Mesh mesh({{"row", 2}, {"col", 3}});
  EXPECT_EQ(mesh.findAxis("row"), 0);
  EXPECT_EQ(mesh.findAxis("col"), 1);
  EXPECT_EQ(mesh.findAxis("data"), std::nullopt);
}

TEST(Mesh, WithoutAxesHasOneRank) {
  Mesh mesh;
  EXPECT_EQ(mesh.numRanks(), 1);
  EXPECT_EQ(mesh.rank({}), 0);
  EXPECT_TRUE(mesh.coordinates(0).empty());
  EXPECT_EQ(mesh.toString(), "");
}

TEST(Mesh, PrintsAsItIsWritten) {
  EXPECT_EQ(Mesh({{"row", 2}, {"col", 3}}).toString(), "row:2,col:3");
}
