//===- PerturbTest.cpp - Parameters moved by one unit -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Perturb.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace optimus_support;

TEST(Perturb, MovesEveryElementByOneUnitEitherWay) {
  Mesh mesh({{"row", 1}});
  ShardLayout layout{{4000}, {4000}, {{}}};
  std::vector<float> values(4000, 1.5f);
  EXPECT_TRUE(perturbShard(7, 3, layout, mesh, 0, 24, values.data()));
  int up = 0;
  for (float value : values) {
    EXPECT_EQ(std::abs(value - 1.5f), 0x1p-23f);
    up += value > 1.5f;
  }
  // Five deviations of 4000 fair bits: 5 * sqrt(1000) = 158.
  EXPECT_NEAR(up, 2000, 158);
}

TEST(Perturb, IsTheSameOnEveryMesh) {
  ShardLayout whole{{6, 10}, {6, 10}, {{}, {}}};
  Mesh one({{"row", 1}, {"col", 1}});
  std::vector<float> expected(60, 1.0f);
  perturbShard(1, 2, whole, one, 0, 24, expected.data());
  // Padded to 6 x 12, and sharded in four.
  Mesh mesh({{"row", 1}, {"col", 4}});
  ShardLayout sharded{{6, 10}, {6, 3}, {{}, {1}}};
  for (int64_t rank = 0; rank != 4; ++rank) {
    std::vector<float> local(18, 1.0f);
    perturbShard(1, 2, sharded, mesh, rank, 24, local.data());
    for (int64_t i = 0; i != 6; ++i)
      for (int64_t j = 0; j != 3; ++j) {
        int64_t column = 3 * rank + j;
        EXPECT_EQ(local[3 * i + j],
                  column < 10 ? expected[10 * i + column] : 1.0f);
      }
  }
}

TEST(Perturb, MovesByUnitsOfAPrecision) {
  Mesh mesh({{"row", 1}});
  ShardLayout layout{{400}, {400}, {{}}};
  std::vector<float> values(400, -1.5f);
  EXPECT_TRUE(perturbShard(7, 3, layout, mesh, 0, 8, values.data()));
  for (float value : values)
    EXPECT_EQ(std::abs(value + 1.5f), 0x1p-7f);
  // A unit of it is below the smallest of these numbers, and beyond the largest.
  float least = std::numeric_limits<float>::denorm_min();
  float most = std::numeric_limits<float>::max();
  for (int i = 0; i != 400; ++i)
    values[i] = i % 2 ? least : most;
  EXPECT_TRUE(perturbShard(7, 3, layout, mesh, 0, 8, values.data()));
  for (int i = 0; i != 400; ++i) {
    EXPECT_TRUE(std::isfinite(values[i]));
    if (i % 2)
      EXPECT_GE(values[i], least);
    else
      EXPECT_LE(values[i], most);
  }
}

TEST(Perturb, LeavesWhatHasNoNeighbour) {
  Mesh mesh({{"row", 1}});
  ShardLayout layout{{3}, {3}, {{}}};
  float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0f, -0.0f, inf};
  EXPECT_FALSE(perturbShard(7, 3, layout, mesh, 0, 24, values.data()));
  EXPECT_EQ(values, (std::vector<float>{0.0f, -0.0f, inf}));
}
