//===- ResidualsTest.cpp - How far prices are from measurements -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/Residuals.h"

#include "optimus/Prices/MachinePrices.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <random>

using namespace optimus_prices;
using optimus_support::ElementType;

namespace {

/// Products of a machine that takes the formula's time, times a draw of the
/// given spread.
class ResidualsTest : public testing::Test {
protected:
  static constexpr int64_t kExtents[] = {32, 64, 128, 256, 512, 1024};

  double draw(int64_t m, int64_t n, int64_t k) {
    static const MachinePrices kPlain{MachineProfile(), /*numRanks=*/1};
    return kPlain.getGemmSeconds(
               {.kind = Work::Product, .m = m, .n = n, .k = k},
               ElementType::F32, 0) *
           std::exp(spread * std::normal_distribution<>()(random));
  }

  MachineProfile measure() {
    MachineProfile machine;
    auto &points = machine.computes.emplace_back().points;
    for (int64_t m : kExtents)
      for (int64_t n : kExtents)
        for (int64_t k : kExtents)
          points.push_back({.m = m, .n = n, .k = k, .seconds = draw(m, n, k)});
    return machine;
  }

  std::mt19937 random{7};
  double spread = 0;
};

TEST_F(ResidualsTest, OfAnExactFormulaAreNone) {
  const Residuals found = findResiduals(measure(), 1);
  ASSERT_TRUE(found.products.has_value());
  EXPECT_LT(found.products->size, 1e-9);
  EXPECT_FALSE(found.attention || found.packing || found.traffic);
  EXPECT_TRUE(found.collectives.empty());
  EXPECT_EQ(found.get("gemm"), found.products);
  EXPECT_EQ(found.get("launch"), std::nullopt);
}

/// Of shapes that were not measured, as many are within 1.64 residuals as are
/// meant: 90 %, of 216 within 80 to 98.
TEST_F(ResidualsTest, SayHowFarNewShapesAre) {
  for (double one : {0.03, 0.1, 0.3}) {
    spread = one;
    const MachineProfile machine = measure();
    const double residual = findResiduals(machine, 1).products->size;
    // The point's own spread, and that of the mean of its neighbours.
    EXPECT_GT(residual, spread);
    EXPECT_LT(residual, 1.6 * spread);
    const MachinePrices prices(machine, 1);
    int within = 0, count = 0;
    for (int64_t m : kExtents)
      for (int64_t n : kExtents)
        for (int64_t k : kExtents) {
          const Work work{.kind = Work::Product,
                          .m = m * 3 / 2,
                          .n = n * 3 / 2,
                          .k = k * 3 / 2};
          const double price = prices.getGemmSeconds(work, ElementType::F32, 0);
          const double error = std::log(draw(work.m, work.n, work.k) / price);
          within += std::abs(error) <= 1.64 * residual;
          ++count;
        }
    EXPECT_GE(within, 0.80 * count) << spread;
    EXPECT_LE(within, 0.98 * count) << spread;
  }
}

/// Some products took four times as long, as on a machine that is slow for a
/// moment: the formula is as good as it was.
TEST_F(ResidualsTest, ASlowMomentCountsForLittle) {
  spread = 0.05;
  MachineProfile machine = measure();
  const double usual = findResiduals(machine, 1).products->size;
  auto &points = machine.computes.front().points;
  double squares = 0;
  for (size_t i = points.size() / 2; i != points.size() / 2 + 6; ++i) {
    points[i].seconds *= 4;
    squares += std::pow(std::log(4), 2);
  }
  const double slow = findResiduals(machine, 1).products->size;
  EXPECT_GT(slow, usual);
  EXPECT_LT(slow, 1.5 * usual);
  // The root of the mean square would say more than twice that.
  EXPECT_GT(std::sqrt(squares / double(points.size())), 3 * usual);
}

TEST_F(ResidualsTest, OfCollectivesAreThoseBetweenSizes) {
  MachineProfile machine;
  CollectiveProfile entry{.backend = "local",
                          .collective = "reduce",
                          .ranks = 2,
                          .alpha = 0,
                          .beta = 1,
                          .points = {{0, 0}, {1, 1}, {2, 4}, {3, 3}, {4, 4}}};
  machine.collectives = {entry, entry};
  machine.collectives[1].backend = "mpi";
  machine.collectives[1].points[2].second = 100;
  const Residuals found = findResiduals(machine, 2);
  // Without them 1, 2 and 3 would take 2, 2 and 4; their weights are 1, 4, 3.
  const double expected =
      std::sqrt((std::pow(std::log(2), 2) + 4 * std::pow(std::log(2.0 / 4), 2) +
                 3 * std::pow(std::log(4.0 / 3), 2)) /
                8);
  ASSERT_EQ(found.collectives.size(), 1u);
  EXPECT_NEAR(found.collectives.at("reduce").size, expected, 1e-12);
  // The two pairs of neighbours err to different sides.
  EXPECT_EQ(found.collectives.at("reduce").correlation, 0);
  EXPECT_EQ(found.get("reduce"), found.collectives.at("reduce"));
  EXPECT_EQ(found.get("send"), std::nullopt);
}

TEST_F(ResidualsTest, NeighboursOfABentCurveErrAlike) {
  MachineProfile machine;
  machine.collectives = {
      {.backend = "local",
       .collective = "reduce",
       .ranks = 2,
       .alpha = 0,
       .beta = 1,
       .points = {{1, 1}, {2, 4}, {4, 16}, {8, 64}, {16, 256}}}};
  // Without a point, half as much more.
  const Residual found = findResiduals(machine, 2).collectives.at("reduce");
  EXPECT_NEAR(found.size, std::log(1.5), 1e-12);
  EXPECT_NEAR(found.correlation, 1, 1e-12);
  EXPECT_NEAR(found.ofSum(std::array{1.0, 1.0, 1.0}), found.size, 1e-12);
}

TEST(Residual, OfASumIsSmallerWhereShapesErrApart) {
  const Residual apart{.size = 0.1};
  EXPECT_DOUBLE_EQ(apart.ofSum(std::array{5.0}), 0.1);
  EXPECT_DOUBLE_EQ(apart.ofSum(std::array{2.0, 2.0, 2.0, 2.0}), 0.05);
  // Most of the time is one shape's.
  EXPECT_DOUBLE_EQ(apart.ofSum(std::array{4.0, 3.0}), 0.1 * 5 / 7);
  EXPECT_DOUBLE_EQ(apart.ofSum({}), 0.1);
  const Residual alike{.size = 0.1, .correlation = 0.25};
  EXPECT_DOUBLE_EQ(alike.ofSum(std::array{1.0, 1.0, 1.0}),
                   0.1 * std::sqrt(0.5));
}

/// Of programs of twenty shapes that were not measured, as many are within as
/// are meant.
TEST_F(ResidualsTest, SayHowFarSumsOfNewShapesAre) {
  spread = 0.2;
  const MachineProfile machine = measure();
  const Residual residual = *findResiduals(machine, 1).products;
  EXPECT_LT(residual.correlation, 0.2);
  const MachinePrices prices(machine, 1);
  std::uniform_int_distribution<size_t> pick(0, std::size(kExtents) - 1);
  int within = 0;
  constexpr int kPrograms = 300;
  for (int program = 0; program != kPrograms; ++program) {
    std::vector<double> shapes;
    double error = 0;
    for (int shape = 0; shape != 20; ++shape) {
      const int64_t m = kExtents[pick(random)] * 3 / 2;
      const int64_t n = kExtents[pick(random)] * 3 / 2;
      const int64_t k = kExtents[pick(random)] * 3 / 2;
      const Work work{.kind = Work::Product, .m = m, .n = n, .k = k};
      shapes.push_back(prices.getGemmSeconds(work, ElementType::F32, 0));
      error += draw(m, n, k) - shapes.back();
    }
    const double sum = std::accumulate(shapes.begin(), shapes.end(), 0.0);
    within += std::abs(error) <= 1.645 * residual.ofSum(shapes) * sum;
  }
  EXPECT_GE(within, 0.80 * kPrograms);
  EXPECT_LE(within, 0.98 * kPrograms);
}

} // namespace
