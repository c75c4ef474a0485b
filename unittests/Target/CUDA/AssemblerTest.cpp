//===- AssemblerTest.cpp - Kernels as machine code -----------* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"

#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/RowSums.h"
#include "optimus/Target/CUDA/Assembler.h"

#include "gtest/gtest.h"

using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

TEST(Assembler, SaysWhatKernelsTake) {
  auto kernels = readAssemblerLog(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'norm' for 'sm_90'\n"
      "ptxas info    : Function properties for norm\n"
      "    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem\n"
      "ptxas info    : Compiling entry function 'add_8' for 'sm_90'\n"
      "ptxas info    : Function properties for add_8\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 16 registers, used 0 barriers\n");
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  ASSERT_EQ(kernels->size(), 2u);
  EXPECT_EQ((*kernels)[0].name, "add_8");
  EXPECT_EQ((*kernels)[0].registers, 16);
  EXPECT_EQ((*kernels)[0].sharedBytes, 0);
  EXPECT_EQ((*kernels)[0].spillBytes, 0);
  EXPECT_EQ((*kernels)[1].name, "norm");
  EXPECT_EQ((*kernels)[1].registers, 40);
  EXPECT_EQ((*kernels)[1].sharedBytes, 2048);
  EXPECT_EQ((*kernels)[1].spillBytes, 32);
  // A log that is cut off.
  auto partial = readAssemblerLog("Compiling entry function 'f' for 'sm_90'\n");
  ASSERT_FALSE(partial.ok());
  EXPECT_EQ(partial.status().message(),
            "ptxas does not say how many registers 'f' uses");
}

TEST(Architectures, AreThoseOfLLVM) {
  auto read = readCudaArchitectures("sm_80,sm_90,sm_80");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, (std::vector<std::string>{"sm_80", "sm_90"}));
  for (const char *wrong :
       {"", "sm_80,", "sm_12345", "volta", "generic", "sm_75"})
    EXPECT_FALSE(readCudaArchitectures(wrong).ok()) << wrong;
  EXPECT_EQ(getArchitectureNumber("sm_90a"), 90u);
  EXPECT_EQ(getArchitectureNumber(kEmulated), 0u);
}

namespace {
/// Every kernel, at extents of models: 512 tokens of GPT-2's, BERT's and
/// Llama's widths and vocabularies, and of a width that a row of registers does
/// not hold. One in kNumParts is added, from the first of the part on.
constexpr int kNumParts = 4;
void addKernels(CompiledKernels &kernels, int part) {
  const int64_t rows = 512;
  int number = 0;
  auto isOfPart = [&] { return number++ % kNumParts == part; };
  auto add = [&](const Kernel &kernel) {
    if (!isOfPart())
      return;
    KernelDescription description = kernel.describe(&kernels.getContext());
    std::vector<int64_t> scalars(description.getScalars().size(), 0);
    kernels.add(kernel, scalars);
    std::vector<std::string> narrow;
    for (const KernelOperand &operand : description.getOperands())
      if (operand.elementType.isF32() && operand.extent > rows)
        narrow.push_back(operand.name);
    if (!narrow.empty())
      kernels.add(kernel, scalars, narrow);
  };
  for (int64_t n : {768, 1600, 2048, 4096}) {
    add(LayerNorm{rows, n, 1e-5});
    add(LayerNormGrad{rows, n, false});
    add(LayerNormGrad{rows, n, true});
    add(NormParamGrad{rows, n});
    add(RowMoments{rows, n});
    add(Normalize{rows, n});
    add(NormGradSums{rows, n});
    add(NormGradApply{rows, n, n, true});
    add(RmsNorm{rows, n, 1e-6});
    add(RmsNormGrad{rows, n, n, false, true});
    add(RmsNormGrad{rows, n, n, true, false});
    add(RmsParamGrad{rows, n});
    add(RmsScale{rows, n});
    add(RowDot{rows, n, true});
    add(SumLeading{rows, n});
    add(Embedding{rows, 1000, n});
    add(EmbeddingGrad{rows, 1000, n, true, 7});
    add(EmbeddingGrad{rows, 1000, n, false});
    add(EmbeddingGrad{rows, 1000, n, true, 7, /*byRows=*/true});
    add(Dropout{{rows, n}, {2 * rows, n}, 2, 0.1});
    add(kernels.elementwise<AddOp>({rows * n, n}));
    // What --optimus-chain-launches makes of a block of a transformer.
    Elementwise sum =
        elementwise<AddOp>(&kernels.getContext(), {rows * n, rows * n});
    sum.rows = rows;
    sum.cols = n;
    RowStage dropped{Dropout{{rows, n}, {rows, n}, 0, 0.1},
                     {"x", "random", "x"},
                     {"stream"}};
    RowStage added{sum, {"residual", "x", "x"}, {}};
    add(RowChain{{dropped,
                  added,
                  {LayerNorm{rows, n, 1e-5},
                   {"x", "gamma", "beta", "y", "mean", "rstd"},
                   {}}}});
    add(RowChain{{dropped,
                  added,
                  {RmsNorm{rows, n, 1e-6}, {"x", "gamma", "y", "rstd"}, {}}}});
    add(RowSums{{{NormParamGrad{rows, n},
                  {"dy", "x", "mean", "rstd", "gains", "shifts"},
                  {}},
                 {LayerNormGrad{rows, n, true},
                  {"dy", "x", "mean", "rstd", "gamma", "residual", "dy"},
                  {}},
                 {SumLeading{rows, n}, {"dy", "biases"}, {}}},
                64});
  }
  const int64_t n = rows * 3072;
  for (bool exact : {false, true}) {
    add(kernels.elementwise<GeluOp>(n, exact));
    add(kernels.elementwise<GeluWithSlopeOp>(n, exact));
  }
  add(kernels.elementwise<AddOp>({n, n}));
  add(kernels.elementwise<MulOp>({n, n}));
  add(kernels.elementwise<CastOp>({n}));
  add(kernels.elementwise<SqrtOp>({n}));
  add(kernels.elementwise<SwigluOp>({n, n}));
  add(kernels.elementwise<SwigluGradOp>({n, n, n}));
  for (bool flag : {false, true}) {
    add(kernels.step<AdagradOp>(n, flag));
    add(kernels.step<AdamWOp>(n, flag));
    add(kernels.step<LionOp>(n, flag));
    add(kernels.step<LambDirectionOp>(n, flag));
    add(kernels.step<LambUpdateOp>(n, /*decay=*/false, flag));
    add(kernels.step<SgdOp>(n, flag));
    add(Rotary{2, 256, 12, 64, 1e4, flag});
    add(Rotary{2, 256, 32, 128, 5e5, flag, 64, 8, flag});
    add(Lengths{8, 64, -1, flag});
    add(Rotary{8, 1, 32, 128, 1e4, flag, 128, 32, true, 4096});
  }
  // GPT-2's, BERT's and Llama's, the most whose keys a warp holds in registers
  // and the next, and a head of an odd size.
  for (bool causal : {false, true})
    for (int64_t dim : {64, 128, 80, 96, 112, 21}) {
      AttentionExtents extents = {2,        512,      12,     12,     dim,
                                  36 * dim, 36 * dim, causal, !causal};
      if (dim == 128)
        extents = {2, 512, 32, 8, dim, 32 * dim, 8 * dim, causal, !causal};
      add(Attention{extents});
      add(AttentionQueryGrad{extents});
      add(AttentionKeyGrad{extents});
    }
  // Nothing is whole, and everything is masked.
  AttentionExtents odd = {2, 500, 12, 4, 64, 768, 256, true, true};
  add(Attention{odd});
  add(AttentionQueryGrad{odd});
  add(AttentionKeyGrad{odd});
  // Documents by themselves, in windows or not, and windows alone, in heads of
  // every way to hold keys; nothing is whole.
  for (int64_t dim : {64, 96, 128}) {
    AttentionExtents documents = {2,        500,      12,   12,    dim,
                                  36 * dim, 36 * dim, true, false, true};
    AttentionExtents windows = documents;
    windows.hasPositions = false;
    windows.window = 100;
    AttentionExtents both = documents;
    both.window = 100;
    for (const AttentionExtents &extents : {documents, windows, both}) {
      add(Attention{extents});
      add(AttentionQueryGrad{extents});
      add(AttentionKeyGrad{extents});
    }
  }
  for (int64_t dim : {64, 128}) {
    AttentionExtents cache = {8,        1,       32,   8,    dim,
                              32 * dim, 8 * dim, true, true, true};
    cache.capacity = 4096;
    add(Attention{cache});
    cache.window = 100;
    add(Attention{cache});
    cache.pool = 128;
    add(Attention{cache});
    add(AttentionPieces{cache, 128});
    add(AttentionOfPieces{cache, 128});
  }
  for (int64_t vocabulary : {30522, 50257, 128256}) {
    add(RowMax{rows, vocabulary});
    add(Best{8, vocabulary, 64});
    add(ExpSum{rows, vocabulary});
    add(SoftmaxSums{rows, vocabulary, false});
    add(SoftmaxSums{rows, vocabulary, true});
    add(LogitsGrad{rows, vocabulary});
    // Of whole lines, so that a thread keeps its part of a row in registers.
    auto cols = static_cast<int64_t>(llvm::alignTo(vocabulary, 64));
    add(LogitSums{rows, cols, false});
    add(LogitSums{rows, cols, true});
    add(PartialLogitSums{rows, cols});
    add(PartialLogitsGrad{rows, cols});
  }
  add(CacheAppend{8, 1, 4096, 1024});
  add(CacheAppend{8, 1, 1024, 1024, /*pages=*/64});
  add(SlotAppend{128, 8, 1024, 1024, /*pages=*/64});
  add(Take{8, 4096, 1024, true, /*share=*/1024});
  add(MergeMoments{rows, {384, 384}, 1e-5});
  add(RmsRstd{rows, 768, 1e-6});
  add(TokenLoss{rows});
  add(SumTokens{rows});
  add(CountReal{rows});
  add(SumSquares{n});
  // All tensors of a model, in one launch.
  Grouped updates{{},
                  {"param", "grad", "exp_avg", "exp_avg_sq", "scale", "lr",
                   "weight_decay", "beta1", "beta2", "epsilon", "beta1_power",
                   "beta2_power", "param", "exp_avg", "exp_avg_sq"},
                  {"scale", "lr", "weight_decay", "beta1", "beta2", "epsilon",
                   "beta1_power", "beta2_power"}};
  Grouped squares{{}, {"x", "partials"}, {}};
  for (int64_t number = 0; number < 100; ++number) {
    updates.pieces.push_back(kernels.step<AdamWOp>(768 * (1 + number), true));
    squares.pieces.push_back(SumSquares{768 * (1 + number / 10)});
  }
  for (const Grouped &grouped : {updates, squares})
    if (isOfPart())
      kernels.add(grouped);
  add(SumPartials{96});
  for (int64_t ranks : {2, 3, 4, 8})
    for (bool toAll : {false, true}) {
      add(ReduceRanks{ranks, n, toAll, false, /*isAligned=*/true});
      add(ReduceRanks{ranks, n, toAll, true, /*isAligned=*/true});
    }
  // Panels of an activation, of a weight, and of rows without a common width.
  add(CopyRows{rows, 384, 768, 384, 8});
  add(CopyRows{768, 1152, 1152, 2304, 4});
  add(CopyRows{rows, 25129, 50257, 25129, 1});
  add(Clip{});
}
} // namespace

class EveryKernel
    : public testing::TestWithParam<std::tuple<const char *, int>> {};

TEST_P(EveryKernel, AssemblesWithoutSpills) {
  auto assembler = CudaAssembler::create("optimus-tests");
  if (!assembler.ok())
    GTEST_SKIP() << assembler.status().message();
  const auto [architecture, part] = GetParam();
  EmulatedKernels kernels;
  addKernels(kernels, part);
  auto ptx = kernels.generatePtx(architecture);
  ASSERT_TRUE(ptx.ok()) << ptx.status().message();
  auto binary = assembler->start(*ptx, architecture).get();
  ASSERT_TRUE(binary.ok()) << binary.status().message();
  EXPECT_EQ(binary->cubin.substr(1, 3), "ELF");
  EXPECT_EQ(binary->kernels.size(), kernels.getNumKernels());
  for (const CudaKernelUse &use : binary->kernels)
    EXPECT_EQ(use.spillBytes, 0)
        << use.name << " of " << use.registers << " registers";
}

INSTANTIATE_TEST_SUITE_P(
    Architectures, EveryKernel,
    testing::Combine(testing::Values("sm_80", "sm_90", "sm_100"),
                     testing::Range(0, kNumParts)),
    [](const auto &instance) {
      return std::get<0>(instance.param) +
             ("_" + std::to_string(std::get<1>(instance.param)));
    });
