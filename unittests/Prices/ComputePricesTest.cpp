//===- ComputePricesTest.cpp - What computing takes -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/MachinePrices.h"

#include <gtest/gtest.h>

#include <limits>

using namespace optimus_prices;
using optimus_support::ElementType;

namespace {

/// What 1000 bytes add to a product, by default in no cache.
double
getColdSeconds(const ComputeProfile &profile, ElementType factors,
               double reuseBytes = std::numeric_limits<double>::infinity()) {
  const ComputePrices prices(profile, /*isGpu=*/false);
  CommandWork command;
  command.work = {.kind = Work::Product, .m = 64, .n = 64, .k = 64};
  command.factors = factors;
  const Touch touch{.reads = true, .bytes = 1000, .reuseBytes = reuseBytes};
  return prices.getSeconds(command, std::span(&touch, 1)) -
         prices.getSeconds(command, {});
}

TEST(ComputePrices, OperandsAreAsColdAsTheirTypeWasMeasured) {
  ComputeProfile profile;
  profile.streams = {{1 << 14, 1e11}, {1 << 26, 1e10}};
  EXPECT_EQ(getColdSeconds(profile, ElementType::F32), 0);
  profile.coldSecondsPerByte = 1e-9;
  profile.otherTypes = {{"bf16", {}}};
  EXPECT_NEAR(getColdSeconds(profile, ElementType::F32), 1e-6, 1e-12);
  EXPECT_NEAR(getColdSeconds(profile, ElementType::BF16), 1e-6, 1e-12);
  profile.otherTypes.front().second.coldSecondsPerByte = 3e-9;
  EXPECT_NEAR(getColdSeconds(profile, ElementType::F32), 1e-6, 1e-12);
  EXPECT_NEAR(getColdSeconds(profile, ElementType::BF16), 3e-6, 1e-12);
}

/// A timed shape is known from near ones.
TEST(ComputePrices, KnowWhatWasTimed) {
  ComputeProfile profile;
  profile.points = {{.m = 64, .n = 32, .k = 16, .seconds = 1e-5}};
  profile.attention.points = {{.seq = 64, .headDim = 8, .seconds = 1e-5}};
  profile.packs = {{.rows = 16, .cols = 32, .seconds = 1e-5}};
  const ComputePrices prices(profile, /*isGpu=*/false);
  auto isTimed = [&](const Work &work) {
    CommandWork command;
    command.work = work;
    return prices.hasPoint(command);
  };
  EXPECT_TRUE(isTimed({.kind = Work::Product, .m = 64, .n = 32, .k = 16}));
  // Where nothing has gaps they do not count.
  EXPECT_TRUE(isTimed(
      {.kind = Work::Product, .m = 64, .n = 32, .k = 16, .gaps = true}));
  EXPECT_FALSE(isTimed({.kind = Work::Product, .m = 64, .n = 32, .k = 17}));
  EXPECT_FALSE(isTimed(
      {.kind = Work::Product, .m = 64, .n = 32, .k = 16, .bias = true}));
  EXPECT_TRUE(isTimed({.kind = Work::Attention, .seq = 64, .headDim = 8}));
  EXPECT_FALSE(isTimed(
      {.kind = Work::Attention, .seq = 64, .headDim = 8, .causal = true}));
  EXPECT_TRUE(isTimed({.kind = Work::Packing, .n = 32, .k = 16}));
  EXPECT_FALSE(isTimed({.kind = Work::Packing, .n = 16, .k = 32}));
  EXPECT_FALSE(isTimed({}));
}

/// A library may have other kernels for matrices with gaps. A profile that
/// knows of none says the same of both.
TEST(ComputePrices, ProductsWithGapsAreAsThoseMeasuredWithGaps) {
  ComputeProfile profile;
  profile.gemmAlpha = 0;
  auto add = [&](int64_t n, bool gaps, double seconds) {
    profile.points.push_back(
        {.m = 64, .n = n, .k = 64, .gaps = gaps, .seconds = seconds});
  };
  auto price = [&](int64_t n, bool gaps) {
    return ComputePrices(profile, /*isGpu=*/false)
        .getGemmSeconds(
            {.kind = Work::Product, .m = 64, .n = n, .k = 64, .gaps = gaps},
            ElementType::F32, /*bytes=*/0);
  };
  add(32, false, 1e-5);
  add(64, false, 2e-5);
  const double between = price(48, false);
  EXPECT_EQ(price(48, true), between);
  add(32, true, 3e-5);
  add(64, true, 6e-5);
  EXPECT_NEAR(price(64, false), 2e-5, 1e-12);
  EXPECT_NEAR(price(64, true), 6e-5, 1e-12);
  // Those of the other kind are as far as four octaves.
  EXPECT_NEAR(price(48, false), between, 0.1 * between);
  EXPECT_NEAR(price(48, true), 3 * between, 0.3 * between);
}

/// Threads take longer to begin and to end than few bytes do, so that memory
/// may seem faster than the nearest cache.
TEST(ComputePrices, OperandsInNoCacheCostThreadsMore) {
  ComputeProfile profile;
  profile.threads = 2;
  profile.streams = {{1 << 14, 2e10}, {1 << 20, 2e11}, {1 << 26, 4e10}};
  profile.coldSecondsPerByte = 1e-9;
  EXPECT_EQ(getColdSeconds(profile, ElementType::F32, 1 << 13), 0);
  EXPECT_EQ(getColdSeconds(profile, ElementType::F32, 1 << 20), 0);
  EXPECT_NEAR(getColdSeconds(profile, ElementType::F32), 1e-6, 1e-12);
  const double between = getColdSeconds(profile, ElementType::F32, 1 << 23);
  EXPECT_GT(between, 0.2e-6);
  EXPECT_LT(between, 0.8e-6);
}

/// Two threads are slower together than one where they begin and end, and one
/// of them does a task that cannot be divided.
TEST(ComputePrices, OneTaskTakesWhatOneThreadDoes) {
  MachineProfile machine;
  auto &two = machine.computes.emplace_back();
  two.threads = two.cores = 2;
  two.kernelAlpha = 0;
  two.streams = {{1 << 14, 1e9}, {1 << 26, 1e9}};
  CommandWork kernel;
  kernel.isKernel = true;
  const Touch touch{.reads = true, .bytes = 2000};
  const auto price = [&] {
    return MachinePrices(machine, /*numRanks=*/1)
        .getSeconds(kernel, std::span(&touch, 1));
  };
  kernel.tasks = 2;
  EXPECT_DOUBLE_EQ(price(), 3e-6);
  kernel.tasks = 1;
  EXPECT_DOUBLE_EQ(price(), 6e-6);
  machine.computes.push_back(two);
  machine.computes.back().threads = 1;
  machine.computes.back().streams = {{1 << 14, 1e10}, {1 << 26, 1e10}};
  EXPECT_DOUBLE_EQ(price(), 3e-7);
  kernel.tasks = 2;
  EXPECT_DOUBLE_EQ(price(), 3e-6);
}

} // namespace
