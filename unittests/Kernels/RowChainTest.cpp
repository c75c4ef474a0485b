//===- RowChainTest.cpp - Kernels fused row by row --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

#include "optimus/Kernels/RowChain.h"

#include "optimus-support/Dropout.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

namespace {
/// What a block of a transformer does between two products, and the chain of
/// it.
struct NormBlock {
  NormBlock(MLIRContext &context, int64_t rows, int64_t n)
      : dropout{{rows, n}, {rows, n}, /*addends=*/0, /*rate=*/0.3},
        add{StringAttr::get(&context, AddOp::getOperationName()),
            DictionaryAttr::get(&context),
            rows,
            n,
            /*repeats=*/{0, 0},
            /*numResults=*/1},
        norm{rows, n, 1e-5},
        // The sum is made where the dropout's result lies.
        chain{{{dropout, {"x", "random", "sum"}, {"stream"}},
               {add, {"residual", "sum", "sum"}, {}},
               {norm, {"sum", "gamma", "beta", "y", "mean", "rstd"}, {}}}} {}

  Dropout dropout;
  Elementwise add;
  LayerNorm norm;
  RowChain chain;
};

constexpr int64_t kChainStream = 5;
} // namespace

// One launch instead of three, and no kernel written for it.
TEST_P(KernelTest, AChainHasTheBitsOfItsStages) {
  struct Numbers {
    size_t dropout, add, norm;
  };
  std::vector<Numbers> others;
  forSizes(
      [&](int64_t rows, int64_t n) {
        NormBlock block(kernels.getContext(), rows, n);
        others.push_back({kernels.add(block.dropout, {kChainStream}),
                          kernels.add(block.add), kernels.add(block.norm)});
        return kernels.add(block.chain, {kChainStream});
      },
      [&, next = size_t(0)](size_t number, int64_t rows, int64_t n) mutable {
        Floats x = random(rows * n), residual = random(rows * n);
        Floats gamma = random(n), beta = random(n);
        auto random = optimus_support::randomWords(/*seed=*/3, /*step=*/4);
        Floats dropped = unset(rows * n), sum = unset(rows * n),
               y = unset(rows * n), mean = unset(rows), rstd = unset(rows);
        Numbers other = others[next++];
        run(other.dropout, x, random, dropped);
        run(other.add, residual, dropped, sum);
        run(other.norm, sum, gamma, beta, y, mean, rstd);

        Floats sum2 = unset(rows * n), y2 = unset(rows * n),
               mean2 = unset(rows), rstd2 = unset(rows);
        run(number, x, random, sum2, residual, gamma, beta, y2, mean2, rstd2);
        EXPECT_EQ(sum2, sum) << at(rows, n, 0);
        EXPECT_EQ(y2, y) << at(rows, n, 0);
        EXPECT_EQ(mean2, mean) << at(rows, n, 0);
        EXPECT_EQ(rstd2, rstd) << at(rows, n, 0);
      });
}

TEST_P(KernelTest, AChainSaysWhatItTouches) {
  NormBlock block(kernels.getContext(), 4, 8);
  KernelDescription description =
      Kernel(block.chain).describe(&kernels.getContext());
  std::string text;
  for (const KernelOperand &operand : description.getOperands())
    text +=
        (llvm::Twine(" ") + operand.name + ":" + llvm::Twine(operand.extent) +
         ":" + llvm::Twine(int(operand.access)))
            .str();
  EXPECT_EQ(text, " x:32:1 random:5:1 sum:32:2 residual:32:1 gamma:8:1 "
                  "beta:8:1 y:32:2 mean:4:2 rstd:4:2");
  EXPECT_EQ(description.getScalars(), ArrayRef<std::string>("stream"));
  // Wired otherwise, it is another kernel.
  std::string name = description.getName();
  block.chain.stages[1].buffers = {"sum", "residual", "sum"};
  EXPECT_NE(kernels.getName(block.chain), name);

  Kernel chain = block.chain;
  DictionaryAttr parameters = chain.getParameters(&kernels.getContext());
  FailureOr<Kernel> again = Kernel::read(parameters, [&] {
    return emitError(UnknownLoc::get(&kernels.getContext()));
  });
  ASSERT_TRUE(succeeded(again));
  EXPECT_EQ(again->getParameters(&kernels.getContext()), parameters);
  EXPECT_EQ(kernels.getName(*again), kernels.getName(chain));
}
