//===- DeviceScratchTest.cpp - What a processor holds besides plans -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/DeviceScratch.h"
#include "optimus-support/ProgramScratch.h"
#include "optimus-testing/ProgramWriter.h"

#include <gtest/gtest.h>

using namespace optimus_support;
using namespace optimus_support::program;

TEST(DeviceScratch, GrowsWithTheProductUpToItsBlocks) {
  const int64_t small = productScratch({4, 4, 4}).perThread;
  EXPECT_GT(small, 0);
  EXPECT_LT(small, 16384);
  EXPECT_GT(productScratch({64, 64, 64}).perThread, small);
  // A block of A, one of B, sixteen of C.
  const int64_t most = productScratch({256, 960, 1024}).perThread;
  EXPECT_EQ(most, 4 * (256 * 1040 + 64 * 1040 + 256 * 1024 + 1024));
  EXPECT_EQ(productScratch({5000, 6000, 7000}).bytes(3), 3 * most);
  // Of few rows all of k.
  EXPECT_EQ(productScratch({64, 960, 4096}).perThread,
            4 * (64 * 4112 + 64 * 4112 + 64 * 1024 + 1024));
  EXPECT_EQ(productScratch({65, 960, 4096}).perThread,
            4 * (65 * 1040 + 64 * 1040 + 65 * 1024 + 1024));
}

TEST(DeviceScratch, HasRoomForWhatIsAddedToABiasAndC) {
  const int64_t blocks = productScratch({500, 600, 700}).perThread;
  DeviceScratch scratch = productScratch({500, 600, 700, false, true});
  EXPECT_EQ(scratch.perThread, blocks);
  EXPECT_EQ(scratch.shared, 4 * (500 * 600 + 1024));
  EXPECT_EQ(scratch.bytes(2), 2 * blocks + scratch.shared);
  scratch = productScratch({500, 600, 700, true, true});
  EXPECT_EQ(scratch.perThread, blocks + 4 * (500 * 600 + 1024));
  EXPECT_EQ(scratch.shared, 0);
}

TEST(DeviceScratch, OfAttentionCountsWholeBlocksAndVectors) {
  // One block of 64 tokens, a vector of 16 elements.
  EXPECT_EQ(attentionScratchBytes({3, 5, false, false, false}).get(),
            4 * (64 * 16 + 3 * 16 + 64 * 64 + 64 * 16 + 3 * 64));
  EXPECT_EQ(attentionScratchBytes({3, 5, true, false, false}).get(),
            4 * (4 * 3 * 16 + 2 * 64 * 64 + 4 * 64 * 16 + 2 * 64));
  EXPECT_EQ(attentionScratchBytes({INT64_MAX, 1, false, true, false}).get(),
            std::nullopt);
  EXPECT_EQ(attentionScratchBytes(
                {int64_t(1) << 40, int64_t(1) << 40, true, true, false})
                .get(),
            std::nullopt);
}

TEST(DeviceScratch, OfAttentionWithPositionsCountsAFirstKeyOfEachToken) {
  for (bool isGradient : {false, true})
    EXPECT_EQ(
        *attentionScratchBytes({30, 5, isGradient, false, true}).get() -
            *attentionScratchBytes({30, 5, isGradient, false, false}).get(),
        4 * 32);
}

TEST(DeviceScratch, HasRoomForNarrowOperandsInF32) {
  // Blocks of A and B, and one of a narrow result.
  EXPECT_EQ(narrowProductScratchBytes({3, 5, 7}, false), 4 * (3 * 7 + 7 * 5));
  EXPECT_EQ(narrowProductScratchBytes({3, 5, 7}, true),
            4 * (3 * 7 + 7 * 5 + 3 * 5));
  EXPECT_EQ(narrowProductScratchBytes({3, 5, 7}, true, /*widens=*/false),
            4 * 3 * 5);
  EXPECT_EQ(narrowProductScratchBytes({5000, 6000, 7000}, true),
            4 * (1024 * 2048 + 2048 * 2048 + 1024 * 2048));
  // 3 x 5 elements are a vector of 16.
  EXPECT_EQ(*attentionScratchBytes({3, 5, false, true, false}).get() -
                *attentionScratchBytes({3, 5, false, false, false}).get(),
            4 * (16 + 4 * 16));
  EXPECT_EQ(*attentionScratchBytes({3, 5, true, true, false}).get() -
                *attentionScratchBytes({3, 5, true, false, false}).get(),
            4 * (16 + 8 * 16));
  // Two bytes an element of A where it is transposed, if that pays.
  EXPECT_EQ(transposedCopyBytes({100, 256, 30, true}), 2 * 100 * 30);
  EXPECT_EQ(transposedCopyBytes({100, 256, 30}), 0);
  EXPECT_EQ(transposedCopyBytes({100, 255, 30, true}), 0);
  EXPECT_EQ(transposedCopyBytes({1 << 12, 256, 1 << 11, true}), 0);
  ScratchBound bound;
  bound.product({100, 256, 30, true}, true, false);
  EXPECT_EQ(bound.get().shared, 4 * (100 * 30 + 30 * 256) + 2 * 100 * 30);
  bound = {};
  bound.product({3, 5, 7}, true, true);
  bound.product({1, 2, 3}, false, false);
  EXPECT_EQ(bound.get().shared, 4 * (3 * 7 + 7 * 5 + 3 * 5));
  EXPECT_EQ(bound.get().perThread, productScratch({3, 5, 7}).perThread);
}

TEST(DeviceScratch, OfAFunctionIsThatOfWhatNeedsMost) {
  ProgramWriter programs(Mesh({{"row", 1}}));
  FunctionWriter f = programs.function("f");
  View arena = f.arena(ElementType::F32, 4096);
  EXPECT_EQ(scratchOf(f.table()).bytes(8), 0);
  GemmT gemm;
  gemm.m = gemm.n = gemm.k = 8;
  for (int64_t m : {8, 16, 4}) {
    gemm.m = m;
    f.gemm(gemm, {.a = arena, .b = arena, .c = arena});
  }
  const int64_t products = productScratch({16, 8, 8}).perThread;
  EXPECT_EQ(scratchOf(f.table()).perThread, products);
  EXPECT_EQ(scratchOf(f.table()).shared, 0);
  gemm.accumulate = true;
  f.gemm(gemm, {.a = arena, .b = arena, .c = arena, .bias = arena});
  EXPECT_EQ(scratchOf(f.table()).shared, 4 * (4 * 8 + 1024));
  // On a GPU all products share one workspace.
  TargetT gpu;
  gpu.name = "cuda";
  EXPECT_EQ(scratchOf(gpu, f.table()).bytes(8), 32 << 20);
  AttentionShapeT shape;
  shape.batch = shape.heads = shape.kv_heads = 1;
  shape.seq = shape.head_dim = 8;
  f.attention(shape, {.q = arena, .k = arena, .v = arena, .out = arena,
                      .lse = arena});
  f.attentionGrad(shape, {.dout = arena, .q = arena, .k = arena, .v = arena,
                          .out = arena, .lse = arena, .dq = arena, .dk = arena,
                          .dv = arena});
  EXPECT_EQ(
      scratchOf(f.table()).perThread,
      products +
          std::max(*attentionScratchBytes({8, 8, false, false, false}).get(),
                   *attentionScratchBytes({8, 8, true, false, false}).get()));
}
