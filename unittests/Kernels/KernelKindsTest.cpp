//===- KernelKindsTest.cpp - Kernels to attributes and back -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTest.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

// What a device program says of a kernel is enough to build it.
TEST_P(KernelTest, EveryKernelIsReadBack) {
  const Kernel all[] = {
      kernels.step<AdagradOp>(8, true),
      kernels.step<AdamWOp>(8, true),
      Attention{{2, 3, 4, 2, 5, 24, 12, /*causal=*/true}},
      Attention{{2, 3, 4, 2, 5, 24, 12, true, false, false, /*window=*/2}},
      Attention{{2, 3, 4, 2, 5, 24, 12, true, true, true, 2, /*capacity=*/9}},
      Attention{{2, 1, 4, 2, 5, 24, 12, true, true, true, 2, 128, /*pool=*/6}},
      AttentionOfPieces{{2, 1, 4, 2, 5, 24, 12, true, true, true, 2, 9}, 4},
      AttentionPieces{{2, 1, 4, 2, 5, 24, 12, true, true, true, 2, 9}, 4},
      AttentionKeyGrad{{2, 3, 4, 2, 5}},
      AttentionQueryGrad{{2, 3, 4, 4, 8, 96, 96, false, /*hasLengths=*/true}},
      Best{2, 3, 2},
      CacheAppend{2, 3, 8, 5},
      CacheAppend{2, 3, 128, 5, /*pages=*/3, /*stride=*/15},
      Clip{},
      CopyRows{3, 8, 24, 16, 4},
      CountReal{8},
      Dropout{{2, 3}, {4, 3}, 1, 0.3},
      kernels.elementwise<AddOp>({8, 4}),
      kernels.elementwise<GeluOp>(8, /*exact=*/true),
      kernels.elementwise<SwigluGradOp>({8, 8, 8}),
      Embedding{2, 3, 4},
      EmbeddingOfBlocks{2, 3, 32, 4},
      EmbeddingGrad{2, 3, 4, false, 7},
      EmbeddingGrad{2, 3, 4, true},
      EmbeddingGrad{2, 3, 4, true, std::nullopt, /*byRows=*/true},
      ExpSum{2, 3},
      kernels.step<LambDirectionOp>(8, false),
      kernels.step<LambUpdateOp>(8, /*decay=*/false, true),
      LayerNorm{2, 3, 1e-5},
      LayerNormGrad{2, 3, true},
      Lengths{2, 3, -1, true},
      kernels.step<LionOp>(8, true),
      LogProbabilities{2, 3},
      LogitSums{2, 3, true},
      LogitsGrad{2, 3},
      MergeMoments{2, {3, 0, 2}, 1e-5},
      NormGradApply{2, 3, 6, true},
      NormGradSums{2, 3},
      NormParamGrad{2, 3},
      Normalize{2, 3},
      PartialLogitSums{2, 3},
      PartialLogitsGrad{2, 3},
      ReduceRanks{3, 8, true, false, true},
      Repetition{6, 3},
      Splat{6, 0.5},
      RmsNorm{2, 3, 1e-6},
      RmsNormGrad{2, 3, 6, true, false},
      RmsParamGrad{2, 3},
      RmsRstd{2, 3, 1e-6},
      RmsScale{2, 3},
      Rotary{2, 3, 4, 6, 1e4, true},
      Rotary{2, 3, 4, 6, 1e4, false, 6, 4, true, /*capacity=*/8},
      Rotary{2, 3, 4, 6, 1e4, true, 6, 4, false, std::nullopt, {1, 0.5, 0.1}},
      RowDot{2, 3, true},
      RowMax{2, 3},
      RowMoments{2, 3},
      kernels.step<SgdOp>(8, true),
      SlotAppend{3, 2, 8, 5},
      SlotAppend{3, 2, 128, 5, /*pages=*/3, /*stride=*/15},
      SoftmaxSums{2, 3, true},
      SumLeading{2, 3},
      SumPartials{8},
      SumSquares{40000},
      SumTokens{8},
      Take{2, 3, 4, true},
      Take{2, 128, 4, true, /*share=*/64},
      TokenLoss{8},
  };
  MLIRContext &context = kernels.getContext();
  for (const Kernel &kernel : all) {
    DictionaryAttr parameters = kernel.getParameters(&context);
    FailureOr<Kernel> again = Kernel::read(
        parameters, [&] { return emitError(UnknownLoc::get(&context)); });
    ASSERT_TRUE(succeeded(again)) << kernels.getName(kernel);
    EXPECT_EQ(again->getParameters(&context), parameters)
        << kernels.getName(kernel);
    EXPECT_EQ(kernels.getName(*again), kernels.getName(kernel));
    // And built, whatever the schedule.
    kernels.add(kernel, std::vector<int64_t>(
                            kernel.describe(&context).getScalars().size(), 0));
  }
  EXPECT_EQ(kernels.compile(), "");
}

// Vectors do what numbers do: both contract the same products.
TEST(Schedules, AgreeToTheBitOnElements) {
  const CpuSchedule cpuSchedule;
  const ScalarSchedule scalarSchedule;
  const int64_t n = 5003;
  CompiledKernels cpu(cpuSchedule), scalar(scalarSchedule);
  for (CompiledKernels *kernels : {&cpu, &scalar}) {
    for (bool exact : {false, true})
      kernels->add(kernels->elementwise<GeluWithSlopeOp>(n, exact));
    kernels->add(kernels->elementwise<SwigluGradOp>({n, n, n}));
    kernels->add(kernels->elementwise<MulOp>({n, n}));
    kernels->add(kernels->elementwise<SqrtOp>(n));
    kernels->add(kernels->step<SgdOp>(n, true));
    ASSERT_EQ(kernels->compile(), "");
  }
  Floats a = random(n, 0, 3), b = random(n), c = random(n);
  auto expectEqual = [&](size_t number, std::vector<Floats> inputs,
                         size_t numResults) {
    std::vector<Floats> results[2];
    for (size_t which : {0, 1}) {
      results[which].assign(numResults, Floats(n, -1));
      std::vector<void *> buffers;
      for (Floats &input : inputs)
        buffers.push_back(input.data());
      for (Floats &result : results[which])
        buffers.push_back(result.data());
      (which ? scalar : cpu).run(number, buffers, 3);
    }
    for (size_t result = 0; result < numResults; ++result)
      EXPECT_EQ(std::memcmp(results[0][result].data(),
                            results[1][result].data(), n * sizeof(float)),
                0)
          << "launch " << number << " result " << result;
  };
  expectEqual(0, {a}, 2);
  expectEqual(1, {a}, 2);
  expectEqual(2, {b, a, c}, 2);
  expectEqual(3, {a, b}, 1);
  Floats squares = a;
  for (float &value : squares)
    value *= value;
  expectEqual(4, {squares}, 1);
  expectEqual(5, {a, b, c, {0.25f}, {1e-2f}, {0.1f}, {0.9f}}, 2);
}
