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
  EXPECT_TRUE(perturbShard(7, 3, layout, mesh, 0, values.data()));
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
  perturbShard(1, 2, whole, one, 0, expected.data());
  // Padded to 6 x 12, and sharded in four.
  Mesh mesh({{"row", 1}, {"col", 4}});
  ShardLayout sharded{{6, 10}, {6, 3}, {{}, {1}}};
  for (int64_t rank = 0; rank != 4; ++rank) {
    std::vector<float> local(18, 1.0f);
    perturbShard(1, 2, sharded, mesh, rank, local.data());
    for (int64_t i = 0; i != 6; ++i)
      for (int64_t j = 0; j != 3; ++j) {
        int64_t column = 3 * rank + j;
        EXPECT_EQ(local[3 * i + j],
                  column < 10 ? expected[10 * i + column] : 1.0f);
      }
  }
}

TEST(Perturb, LeavesWhatHasNoNeighbour) {
  Mesh mesh({{"row", 1}});
  ShardLayout layout{{3}, {3}, {{}}};
  float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.0f, -0.0f, inf};
  EXPECT_FALSE(perturbShard(7, 3, layout, mesh, 0, values.data()));
  EXPECT_EQ(values, (std::vector<float>{0.0f, -0.0f, inf}));
}
