//===- RepeatedBlocksTest.cpp - Layers that are the same again ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/RepeatedBlocks.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Layers of two kinds: `x = x·w + x`, and then `x = gelu(x·w)`; a residual
/// leads around all of the second kind.
class RepeatedBlocksOf : public testing::Test {
protected:
  RepeatedBlocksOf() {
    context.loadDialect<OptimusDialect, func::FuncDialect>();
  }

  func::FuncOp build(size_t first, size_t second, StringRef between = "") {
    const std::string type = "tensor<2x4x4xf32>";
    // The first layer has an input that is computed, as the others do.
    std::string arguments, x = "%e",
                           body = "%e = optimus.gelu %x : " + type + "\n";
    auto multiply = [&](const std::string &name) {
      arguments += ", %w" + name + ": tensor<4x4xf32> {optimus.param = \"w" +
                   name + "\"}";
      body += "%p" + name + " = optimus.matmul " + x + ", %w" + name + " : (" +
              type + ", tensor<4x4xf32>) -> " + type + "\n";
    };
    auto add = [&](const std::string &result, const std::string &a,
                   const std::string &b) {
      body += result + " = optimus.add " + a + ", " + b + " : (" + type + ", " +
              type + ") -> " + type + "\n";
    };
    for (size_t layer = 0; layer < first; ++layer) {
      std::string name = "a" + std::to_string(layer);
      multiply(name);
      add("%x" + name, "%p" + name, x);
      x = "%x" + name;
    }
    std::string early = x;
    body += between;
    for (size_t layer = 0; layer < second; ++layer) {
      std::string name = "b" + std::to_string(layer);
      multiply(name);
      body += "%x" + name + " = optimus.gelu %p" + name + " : " + type + "\n";
      x = "%x" + name;
    }
    add("%y", x, early);
    module = parseSourceString<ModuleOp>(
        "func.func @loss(%x: " + type + arguments + ") -> " + type + " {\n" +
            body + "return %y : " + type + "\n}",
        &context);
    return module ? module->lookupSymbol<func::FuncOp>("loss") : func::FuncOp();
  }

  static size_t count(func::FuncOp function) {
    return std::distance(function.getBody().front().begin(),
                         function.getBody().front().end());
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

TEST_F(RepeatedBlocksOf, TwoKindsAreFound) {
  func::FuncOp loss = build(5, 7);
  ASSERT_TRUE(loss);
  SmallVector<RepeatedBlocks> kinds = findRepeatedBlocks(loss, 3);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].begin, 1u);
  EXPECT_EQ(kinds[0].size, 2u);
  EXPECT_EQ(kinds[0].count, 5u);
  EXPECT_EQ(kinds[1].begin, 11u);
  EXPECT_EQ(kinds[1].size, 2u);
  EXPECT_EQ(kinds[1].count, 7u);
  EXPECT_EQ(findRepeatedBlocks(loss, 6).size(), 1u);
  EXPECT_TRUE(findRepeatedBlocks(loss, 8).empty());
}

TEST_F(RepeatedBlocksOf, AShortProgramIsLeft) {
  func::FuncOp loss = build(5, 7);
  ASSERT_TRUE(loss);
  keepBlocks(loss, findRepeatedBlocks(loss, 3), {2, 3});
  EXPECT_TRUE(succeeded(verify(*module)));
  func::FuncOp shortened = loss;
  OwningOpRef<ModuleOp> whole = std::move(module);
  func::FuncOp expected = build(2, 3);
  EXPECT_EQ(count(shortened), count(expected));
  EXPECT_EQ(shortened.getFunctionType(), expected.getFunctionType());
  // The same operations, with the same uses of each other.
  for (auto [a, b] : llvm::zip_equal(shortened.getBody().front(),
                                     expected.getBody().front())) {
    EXPECT_EQ(a.getName(), b.getName());
    for (auto [x, y] : llvm::zip_equal(a.getOperands(), b.getOperands())) {
      auto argument = dyn_cast<BlockArgument>(x);
      ASSERT_EQ(bool(argument), isa<BlockArgument>(y));
      if (argument)
        EXPECT_EQ(
            shortened.getArgAttrDict(argument.getArgNumber()),
            expected.getArgAttrDict(cast<BlockArgument>(y).getArgNumber()));
      else
        EXPECT_EQ(std::distance(shortened.getBody().front().begin(),
                                x.getDefiningOp()->getIterator()),
                  std::distance(expected.getBody().front().begin(),
                                y.getDefiningOp()->getIterator()));
    }
  }
}

TEST_F(RepeatedBlocksOf, WhatDiffersIsNoLayerAgain) {
  // An argument that lies otherwise.
  func::FuncOp loss = build(6, 0);
  ASSERT_TRUE(loss);
  loss.setArgAttr(3, OptimusDialect::kRole, StringAttr::get(&context, "other"));
  SmallVector<RepeatedBlocks> kinds = findRepeatedBlocks(loss, 2);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].count, 2u);
  // The sum of the layer that differs is alike.
  EXPECT_EQ(kinds[1].begin, 6u);
  EXPECT_EQ(kinds[1].count, 3u);
}

} // namespace
