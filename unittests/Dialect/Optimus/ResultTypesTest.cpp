//===- ResultTypesTest.cpp - Types that follow from operands --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace {

class ResultTypes : public testing::Test {
protected:
  ResultTypes() {
    context.loadDialect<optimus::OptimusDialect, arith::ArithDialect,
                        func::FuncDialect>();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

// The program has every operation, each with the types that it must have.
TEST_F(ResultTypes, AreThoseOfThePrograms) {
  auto module = parseSourceFile<ModuleOp>(OPTIMUS_PROGRAM, &context);
  ASSERT_TRUE(module);
  llvm::StringSet<> names;
  module->walk([&](InferTypeOpInterface op) {
    SmallVector<Type> types;
    ASSERT_TRUE(succeeded(op.inferReturnTypes(
        &context, op.getLoc(), op->getOperands(),
        op->getDiscardableAttrDictionary(), op->getPropertiesStorage(),
        op->getRegions(), types)));
    EXPECT_EQ(TypeRange(op->getResultTypes()), TypeRange(types))
        << op->getName().getStringRef().str();
    names.insert(op->getName().getStringRef());
  });
  for (const char *name : {"adamw",
                           "add",
                           "attention_grad",
                           "clip",
                           "dropout",
                           "gelu",
                           "gelu_with_slope",
                           "global_norm",
                           "head",
                           "head_loss",
                           "head_loss_grad",
                           "lamb_direction",
                           "lamb_update",
                           "layer_norm_grad",
                           "matmul",
                           "mul",
                           "norm_grad_apply",
                           "normalize",
                           "rms_norm_grad",
                           "rms_scale",
                           "rotary",
                           "sgd",
                           "sqrt",
                           "sum_squares",
                           "swiglu_grad"})
    EXPECT_TRUE(names.contains(std::string("optimus.") + name)) << name;
}

TEST_F(ResultTypes, NeedNoNamesInBuilders) {
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  auto tensor = [&](ArrayRef<int64_t> shape) -> Value {
    auto type = RankedTensorType::get(shape, builder.getF32Type());
    return arith::ConstantOp::create(builder, loc,
                                     DenseElementsAttr::get(type, 1.0f));
  };
  auto shapeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  Value x = tensor({2, 8, 16}), w = tensor({16, 3, 4}),
        dy = tensor({2, 8, 3, 4});
  EXPECT_EQ(shapeOf(optimus::MatmulOp::create(builder, loc, x, w, 1,
                                              /*transposeA=*/false,
                                              /*transposeB=*/false)),
            ArrayRef<int64_t>({2, 8, 3, 4}));
  EXPECT_EQ(shapeOf(optimus::MatmulOp::create(builder, loc, dy, w, 2,
                                              /*transposeA=*/false,
                                              /*transposeB=*/true)),
            ArrayRef<int64_t>({2, 8, 16}));
  EXPECT_EQ(shapeOf(optimus::MatmulOp::create(builder, loc, x, dy, 2,
                                              /*transposeA=*/true,
                                              /*transposeB=*/false)),
            ArrayRef<int64_t>({16, 3, 4}));
  EXPECT_EQ(shapeOf(optimus::AddOp::create(builder, loc, x, tensor({16}))),
            ArrayRef<int64_t>({2, 8, 16}));
  EXPECT_TRUE(
      shapeOf(optimus::GlobalNormOp::create(builder, loc, ValueRange{x, w}))
          .empty());
}

} // namespace
