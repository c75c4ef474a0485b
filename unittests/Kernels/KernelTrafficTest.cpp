//===- KernelTrafficTest.cpp - What kernels move ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelTraffic.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/AttentionKernels.h"
#include "optimus/Kernels/ElementwiseBodyOpInterface.h"
#include "optimus/Kernels/ElementwiseKernels.h"
#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/HeadLossKernels.h"
#include "optimus/Kernels/KernelBuilder.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Kernels/NormKernels.h"
#include "optimus/Kernels/OptimizerKernels.h"
#include "optimus/Kernels/RowSums.h"
#include "optimus/Target/CUDA/CudaSchedule.h"

#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {

class KernelTrafficTest : public testing::Test {
protected:
  KernelTrafficTest() {
    DialectRegistry registry;
    KernelBuilder::getDependentDialects(registry);
    registry.insert<OptimusDialect, exec::ExecDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    attachElementwiseBodies(context);
  }

  /// Of a kernel of which these operands are bf16.
  KernelTraffic count(const Kernel &kernel, ArrayRef<StringRef> narrow = {}) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    KernelDescription description = kernel.describe(&context);
    SmallVector<Type> types;
    for (const KernelOperand &operand : description.getOperands())
      types.push_back(llvm::is_contained(narrow, operand.name)
                          ? Type(BFloat16Type::get(&context))
                          : operand.elementType);
    EXPECT_TRUE(succeeded(description.setElementTypes(types)));
    FailureOr<KernelTraffic> traffic =
        countTraffic(KernelDeclarations(*module).declare(kernel, description),
                     CudaSchedule());
    EXPECT_TRUE(succeeded(traffic));
    return traffic.value_or(KernelTraffic());
  }

  MLIRContext context;
};

constexpr int64_t kRows = 6, kCols = 10, kAll = kRows * kCols;

TEST_F(KernelTrafficTest, OfElementsIsTheLeast) {
  Kernel add = elementwise<AddOp>(&context, {kAll, kAll});
  KernelTraffic traffic = count(add);
  EXPECT_EQ(traffic.least, 3 * kAll * 4);
  EXPECT_EQ(traffic.touched, traffic.least);
  traffic = count(add, {"operand0", "result0"});
  EXPECT_EQ(traffic.least, kAll * (2 + 4 + 2));
  EXPECT_EQ(traffic.touched, traffic.least);
  // What is repeated is read again for each row.
  traffic = count(elementwise<AddOp>(&context, {kAll, kCols}));
  EXPECT_EQ(traffic.least, (2 * kAll + kCols) * 4);
  EXPECT_EQ(traffic.touched, 3 * kAll * 4);
}

TEST_F(KernelTrafficTest, OfRowsCountsEachPass) {
  KernelTraffic traffic = count(RowDot{kRows, kCols, /*weight=*/false});
  EXPECT_EQ(traffic.least, (2 * kAll + kRows) * 4);
  EXPECT_EQ(traffic.touched, traffic.least);
  // Mean, spread and result each go through x; gain and shift come with each
  // row.
  traffic = count(LayerNorm{kRows, kCols, 1e-5});
  EXPECT_EQ(traffic.least, (2 * kAll + 2 * kCols + 2 * kRows) * 4);
  EXPECT_EQ(traffic.touched, (3 * kAll + 2 * kAll + kAll + 2 * kRows) * 4);
  traffic = count(SumLeading{kRows, kCols});
  EXPECT_EQ(traffic.least, (kAll + kCols) * 4);
  EXPECT_EQ(traffic.touched, traffic.least);
}

// A chain touches the memory of its stages, but values passed on come from
// memory once.
TEST_F(KernelTrafficTest, OfAChainIsThatOfItsStages) {
  Elementwise add = elementwise<AddOp>(&context, {kAll, kAll});
  add.rows = kRows;
  add.cols = kCols;
  LayerNorm norm{kRows, kCols, 1e-5};
  RowChain chain{{{add, {"x", "residual", "sum"}, {}},
                  {norm, {"sum", "gamma", "beta", "y", "mean", "rstd"}, {}}}};
  KernelTraffic traffic = count(chain), first = count(add),
                second = count(norm);
  EXPECT_EQ(traffic.touched, *first.touched + *second.touched);
  EXPECT_EQ(traffic.least, first.least + second.least - kAll * 4);
}

// Sums read what is there; each group of rows writes its own.
TEST_F(KernelTrafficTest, OfRowSumsHasThePartsOfGroups) {
  Elementwise mul = elementwise<MulOp>(&context, {kAll, kAll});
  mul.rows = kRows;
  mul.cols = kCols;
  RowSums sums{{{mul, {"dy", "slope", "dy"}, {}},
                {SumLeading{kRows, kCols}, {"dy", "sums"}, {}}},
               /*together=*/3};
  KernelTraffic traffic = count(sums);
  EXPECT_EQ(traffic.least, (3 * kAll + 2 * kCols) * 4);
  EXPECT_EQ(traffic.touched, (4 * kAll + 2 * kCols) * 4);
}

TEST_F(KernelTrafficTest, OfPiecesIsTheirSum) {
  auto update = [&](int64_t n) {
    return elementwise(
        StringAttr::get(&context, LambUpdateOp::getOperationName()),
        DictionaryAttr::get(&context), n, /*numOperands=*/3);
  };
  Grouped grouped{
      {update(8), update(40)}, {"param", "direction", "lr", "param"}, {"lr"}};
  KernelTraffic traffic = count(grouped);
  EXPECT_EQ(traffic.least, (3 * 48 + 1) * 4);
  EXPECT_EQ(traffic.touched, (3 * 48 + 2) * 4);
}

// A row that fits the registers of a block comes from memory once.
TEST_F(KernelTrafficTest, OfLogitsIsThatOfTheRowsHeld) {
  for (bool isHeld : {true, false}) {
    const int64_t cols = isHeld ? 50304 : 128256, all = kRows * cols;
    KernelTraffic traffic =
        count(LogitSums{kRows, cols, /*grad=*/true}, {"logits"});
    EXPECT_EQ(traffic.least, 2 * 2 * all + 3 * 4 * kRows);
    // One load of the row or one for each pass, and what lies beside rows.
    ASSERT_TRUE(traffic.touched);
    EXPECT_NEAR(*traffic.touched, (isHeld ? 2 : 4) * 2 * all, 100 * kRows);
  }
}

// Tiles are the target's.
TEST_F(KernelTrafficTest, OfAttentionIsNotKnown) {
  AttentionExtents extents = {1, 64, 2, 2, 16, 32, 32, true, false};
  KernelTraffic traffic = count(Attention{extents});
  EXPECT_EQ(traffic.least, (4 * 64 * 32 + 128) * 4);
  EXPECT_FALSE(traffic.touched);
}

} // namespace
