//===- RoundingTest.cpp - What is counted as rounding ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/Rounding.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Estimates for the results of a program's only function.
std::vector<double> estimate(llvm::StringRef text) {
  MLIRContext context;
  context.loadDialect<OptimusDialect, ccl::CCLDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return {};
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  SmallVector<double> estimates = estimateRoundings(function.getBody().front());
  return {estimates.begin(), estimates.end()};
}

TEST(Rounding, AddsUpWhatEachValueIsMadeFrom) {
  std::vector<double> found = estimate(R"(
    func.func @f(%x: tensor<4x16xf32>, %w: tensor<16x8xf32>, %v: tensor<8x32xf32>)
        -> (tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x32xf32>, tensor<8xf32>) {
      %0 = optimus.matmul %x, %w : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
      %1 = optimus.gelu %0 : tensor<4x8xf32>
      %2 = optimus.matmul %1, %v : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
      %3 = optimus.sum_leading %1 : (tensor<4x8xf32>) -> tensor<8xf32>
      return %x, %1, %2, %3 : tensor<4x16xf32>, tensor<4x8xf32>, tensor<4x32xf32>, tensor<8xf32>
    })");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0], 0);
  // A sum of 16, and 8 for either operation's elements.
  EXPECT_DOUBLE_EQ(found[1], std::sqrt((16 + 8) + 8));
  EXPECT_DOUBLE_EQ(found[2], std::sqrt((16 + 8) + 8 + (8 + 8)));
  EXPECT_DOUBLE_EQ(found[3], std::sqrt((16 + 8) + 8 + (4 + 8)));
}

TEST(Rounding, CountsASumOnceOnEveryMesh) {
  std::vector<double> found = estimate(R"(
    optimus.mesh @mesh <["row" = 2, "col" = 2]>
    #x = #ccl.local<[8, 16], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
    #w = #ccl.local<[16, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
    #y = #ccl.local<[8, 8], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
    #part = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}], unreduced = {"row"}>>
    #v = #ccl.local<[8], #optimus.sharding<@mesh, [{"col"}]>>
    func.func @f(%x: tensor<4x8xf32, #x>, %w: tensor<8x4xf32, #w>)
        -> (tensor<4x4xf32, #y>, tensor<4xf32, #v>) {
      %0 = ccl.matmul %x, %w {stationary = "c", panels = 2 : i64}
        : (tensor<4x8xf32, #x>, tensor<8x4xf32, #w>) -> tensor<4x4xf32, #y>
      %1 = optimus.sum_leading %0 : (tensor<4x4xf32, #y>) -> tensor<4xf32, #part>
      %2 = ccl.all_reduce %1 {axis = "row"} : (tensor<4xf32, #part>) -> tensor<4xf32, #v>
      return %0, %2 : tensor<4x4xf32, #y>, tensor<4xf32, #v>
    })");
  ASSERT_EQ(found.size(), 2u);
  // All 16 terms, whichever rank has them; then four rows and two ranks.
  EXPECT_DOUBLE_EQ(found[0], std::sqrt(16));
  EXPECT_DOUBLE_EQ(found[1], std::sqrt(16 + (4 + 8) + 2));
}

TEST(Rounding, TellsResultsApart) {
  std::vector<double> found = estimate(R"(
    func.func @f(%x: tensor<4x6x16xf32>, %g: tensor<16xf32>, %m: tensor<4x6xf32>)
        -> (tensor<4x6x16xf32>, tensor<16xf32>) {
      %dx, %dgamma, %dbeta = optimus.layer_norm_grad %x, %x, %m, %m, %g
        : (tensor<4x6x16xf32>, tensor<4x6x16xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<16xf32>)
        -> (tensor<4x6x16xf32>, tensor<16xf32>, tensor<16xf32>)
      return %dx, %dgamma : tensor<4x6x16xf32>, tensor<16xf32>
    })");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_DOUBLE_EQ(found[0], std::sqrt(16 + 8));
  EXPECT_DOUBLE_EQ(found[1], std::sqrt(16 + 24 + 8));
}

} // namespace
