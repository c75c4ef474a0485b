//===- InterfacesTest.cpp - What operations say of themselves ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every answer has to hold to, whatever the operation. The program has
// every operation, optional operands there and absent.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <set>

using namespace mlir;
using namespace mlir::optimus;

namespace {

class Interfaces : public testing::Test {
protected:
  Interfaces() {
    context
        .loadDialect<OptimusDialect, arith::ArithDialect, func::FuncDialect>();
    module = parseSourceFile<ModuleOp>(OPTIMUS_PROGRAM, &context);
  }

  void SetUp() override { ASSERT_TRUE(module); }

  static std::string nameOf(Operation *op) {
    return op->getName().getStringRef().str();
  }
  static int64_t countElements(Value value) {
    return cast<RankedTensorType>(value.getType()).getNumElements();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

// Where an operand may be a partial sum, what the result lacks is added up.
TEST_F(Interfaces, AddUpWhatMayBeAPartialSum) {
  std::set<std::string> linear, nonlinear;
  module->walk([&](SumOpInterface op) {
    EXPECT_EQ(op->getNumResults(), 1u) << nameOf(op);
    ShardingRule rule =
        cast<ShardingRuleOpInterface>(op.getOperation()).getShardingRule();
    for (OpOperand &operand : op->getOpOperands()) {
      Contribution contribution = op.getContribution(operand);
      if (contribution == Contribution::Factor)
        continue;
      bool isLinear = contribution == Contribution::Linear;
      (isLinear ? linear : nonlinear).insert(nameOf(op));
      for (int64_t factor : rule.operands[operand.getOperandNumber()])
        EXPECT_TRUE(llvm::is_contained(rule.results[0], factor) ||
                    rule.factors[factor].kind == FactorKind::Contracted)
            << nameOf(op) << " " << operand.getOperandNumber();
    }
  });
  EXPECT_EQ(linear,
            (std::set<std::string>{"optimus.add", "optimus.embedding_grad",
                                   "optimus.matmul", "optimus.sum_leading"}));
  EXPECT_EQ(nonlinear, std::set<std::string>{"optimus.sum_squares"});
}

TEST_F(Interfaces, CountProductsByTheirMatrices) {
  int64_t count = 0;
  module->walk([&](WorkOpInterface op) {
    Work work = op.getWork();
    ASSERT_EQ(work.kind, Work::Product) << nameOf(op);
    EXPECT_TRUE(isProduct(op));
    EXPECT_EQ(work.m * work.k, countElements(op->getOperand(0)));
    EXPECT_EQ(work.k * work.n, countElements(op->getOperand(1)));
    EXPECT_EQ(work.m * work.n, countElements(op->getResult(0)));
    ++count;
  });
  EXPECT_GT(count, 0);
  module->walk([&](AddOp op) { EXPECT_FALSE(isProduct(op)); });
}

TEST_F(Interfaces, KnowTheTablesOfTokens) {
  std::set<std::string> names;
  module->walk([&](TokenTableOpInterface op) {
    names.insert(nameOf(op));
    EXPECT_TRUE(llvm::is_contained(op->getOperands(), op.getTokenTable()));
    EXPECT_EQ(cast<RankedTensorType>(op.getTokenTable().getType()).getRank(),
              2);
  });
  EXPECT_EQ(names, (std::set<std::string>{"optimus.embedding", "optimus.head",
                                          "optimus.head_loss",
                                          "optimus.head_loss_grad"}));
}

// The axes over which a head's vocabulary is sharded, for h, the table and the
// targets with the given shardings.
std::string shardVocabulary(llvm::StringRef shardings) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<OptimusDialect, func::FuncDialect>();
  auto [h, rest] = shardings.split(';');
  auto [table, targets] = rest.split(';');
  auto lie = [](llvm::StringRef dims) {
    return dims.empty() ? std::string()
                        : "{optimus.sharding = #optimus.sharding<@mesh, [" +
                              dims.str() + " ]>}";
  };
  auto module = parseSourceString<ModuleOp>(
      "optimus.mesh @mesh <[\"row\" = 2, \"col\" = 2]>\n"
      "func.func @f(%h: tensor<8x4xf32> " +
          lie(h) + ", %table: tensor<16x4xf32> " + lie(table) +
          ", %targets: tensor<8xi32> " + lie(targets) +
          R"() {
        %loss, %count = optimus.head_loss %h, %table, %targets
          : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
        return
      })",
      &context);
  if (!module)
    return "no program";
  std::string found;
  module->walk([&](OperandShardsOpInterface op) {
    for (const OperandShards &shards : op.getOperandShards()) {
      EXPECT_EQ(shards.operand, 1u);
      EXPECT_EQ(shards.dim, 0);
      for (StringRef axis : shards.axes)
        found += axis;
    }
  });
  return found;
}

TEST(OperandShards, AreOfAnAxisThatDoesNotShardTheTokens) {
  EXPECT_EQ(shardVocabulary(R"({"row"}, {};{"col"}, {};{"row"})"), "col");
  EXPECT_EQ(shardVocabulary(R"({"row"}, {"col"};{}, {};{"row"})"), "col");
  EXPECT_EQ(shardVocabulary(R"({"row"}, {"col"};{"row"}, {};{"row"})"), "col");
  EXPECT_EQ(shardVocabulary(R"({"row"}, {};{"row"}, {"col"};{"row"})"), "");
  EXPECT_EQ(shardVocabulary(R"({"row"}, {};;{"row"})"), "");
}

} // namespace
