//===- TargetTest.cpp - What lowering asks of a target ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExecEvaluator.h"

#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Conversion/ToExec/Passes.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Target/CPU/CpuDevice.h"
#include "optimus/Target/CPU/CpuSchedule.h"
#include "optimus/Target/Target.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
/// A device that answers every question unlike the CPU.
class Particular final : public Target {
public:
  StringRef getName() const override { return "particular"; }
  int64_t getBufferAlignment() const override { return 256; }
  int64_t getLossChunk(int64_t asked, int64_t vocab) const override {
    return asked / 2;
  }
  bool movesStrided(exec::CollectiveKind) const override { return false; }
  llvm::Expected<Processor> getProcessor(StringRef name) const override {
    if (name == "generic")
      return Processor();
    return llvm::createStringError("expected generic, found " + name);
  }
  std::optional<int64_t>
  getPackedElements(const GemmShape &shape, const Processor &) const override {
    return shape.k * shape.n + 3;
  }
  // test/Conversion/ToExec/cuda.mlir has other answers to these.
  bool hasEpilogue(exec::Epilogue) const override { return true; }
  bool mixesElements() const override { return true; }
  bool hasAttention() const override { return true; }
  std::optional<DeviceKernel>
  getDeviceKernel(StringRef, const IterationSpace &) const override {
    return std::nullopt;
  }
  const KernelSchedule &getKernelSchedule() const override { return schedule; }

private:
  CpuSchedule schedule;
};

class TargetTest : public testing::Test {
protected:
  static void SetUpTestSuite() {
    registerCPUTarget();
    registerTarget(std::make_unique<Particular>());
  }

  TargetTest() : context(getRegistry()) {}

  /// The first function of a program, lowered for a target.
  func::FuncOp lower(StringRef program, const char *target,
                     const char *processor = "generic") {
    module = parseSourceString<ModuleOp>(program, &context);
    if (!module)
      return nullptr;
    PassManager passes(&context);
    ToExecPassOptions options;
    options.target = target;
    options.cpu = processor;
    passes.addPass(createToExecPass(options));
    if (failed(passes.run(*module)))
      return nullptr;
    return *module->getOps<func::FuncOp>().begin();
  }

  template <typename OpT>
  static int64_t count(func::FuncOp function) {
    return llvm::range_size(function.getOps<OpT>());
  }

  /// What all arguments hold in the end on all ranks, if each element begins as
  /// a number of its own.
  static std::vector<double> evaluate(func::FuncOp function) {
    ExecEvaluator evaluator(function);
    std::vector<double> result;
    auto forEach = [&](auto visit) {
      for (unsigned number = 0; number < function.getNumArguments(); ++number)
        for (int64_t rank = 0; rank < evaluator.getNumRanks(); ++rank)
          for (double &element : evaluator.getArgument(number, rank))
            visit(element);
    };
    double next = 0;
    forEach([&](double &element) { element = ++next; });
    evaluator.run();
    forEach([&](double &element) { result.push_back(element); });
    return result;
  }

  /// Expects the same results on both targets, one of them without strided
  /// rows.
  void expectSame(StringRef program) {
    func::FuncOp function = lower(program, "cpu");
    ASSERT_TRUE(function);
    std::vector<double> expected = evaluate(function);
    bool hasRows = false;
    for (auto start : function.getOps<exec::CollectiveStartOp>())
      hasRows |= start.getOuter() > 1;
    EXPECT_TRUE(hasRows) << "nothing is to be packed";

    function = lower(program, "particular");
    ASSERT_TRUE(function);
    for (auto start : function.getOps<exec::CollectiveStartOp>())
      EXPECT_TRUE(start.getOuter() == 1 ||
                  (start.getSrcLd() == start.getInner() &&
                   start.getDstLd() == start.getInner()));
    EXPECT_EQ(evaluate(function), expected);
  }

private:
  static DialectRegistry getRegistry() {
    DialectRegistry registry;
    registry.insert<OptimusDialect, ccl::CCLDialect, exec::ExecDialect,
                    func::FuncDialect>();
    registerExecLowerings(registry);
    return registry;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(TargetTest, IsFoundByName) {
  EXPECT_EQ(getTargetNames(), (SmallVector<StringRef>{"cpu", "particular"}));
  EXPECT_EQ(findTarget("cpu")->getName(), "cpu");
  EXPECT_EQ(findTarget("abacus"), nullptr);
}

TEST_F(TargetTest, AlignsBuffers) {
  constexpr StringRef program = R"(
    func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
      %0 = optimus.sqrt %x : tensor<8xf32>
      %1 = optimus.add %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %2 = optimus.add %0, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %2 : tensor<8xf32>
    })";
  func::FuncOp function = lower(program, "cpu");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::AllocOp>(function), 1);
  for (auto allocation : function.getOps<exec::AllocOp>())
    EXPECT_EQ(allocation.getAlignment(), std::nullopt);
  function = lower(program, "particular");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::AllocOp>(function), 1);
  for (auto allocation : function.getOps<exec::AllocOp>())
    EXPECT_EQ(allocation.getAlignment(), 256u);
}

TEST_F(TargetTest, CutsTheLossIntoChunks) {
  constexpr StringRef program = R"(
    func.func @f(%h: tensor<8x4xf32>, %table: tensor<3x4xf32>,
                 %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
      %0, %1 = optimus.head_loss %h, %table, %targets {chunk = 4 : i64}
        : (tensor<8x4xf32>, tensor<3x4xf32>, tensor<8xi32>)
          -> (tensor<f32>, tensor<f32>)
      return %0, %1 : tensor<f32>, tensor<f32>
    })";
  func::FuncOp function = lower(program, "cpu");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::GemmOp>(function), 2);
  function = lower(program, "particular");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::GemmOp>(function), 4);
}

/// Two products of a weight as it lies, two of it transposed, and one of it
/// with a bias.
constexpr StringLiteral kProductsOfAWeight = R"(
  func.func @f(%x: tensor<8x20xf32>, %y: tensor<8x70xf32>, %b: tensor<70xf32>,
               %w: tensor<20x70xf32> {optimus.param = "w"})
      -> (tensor<8x70xf32>, tensor<8x70xf32>, tensor<8x20xf32>,
          tensor<8x20xf32>, tensor<8x70xf32>) {
    %0 = optimus.matmul %x, %w
      : (tensor<8x20xf32>, tensor<20x70xf32>) -> tensor<8x70xf32>
    %1 = optimus.matmul %x, %w
      : (tensor<8x20xf32>, tensor<20x70xf32>) -> tensor<8x70xf32>
    %2 = optimus.matmul %y, %w {transpose_b}
      : (tensor<8x70xf32>, tensor<20x70xf32>) -> tensor<8x20xf32>
    %3 = optimus.matmul %y, %w {transpose_b}
      : (tensor<8x70xf32>, tensor<20x70xf32>) -> tensor<8x20xf32>
    %4 = optimus.matmul %x, %w bias(%b)
      : (tensor<8x20xf32>, tensor<20x70xf32>, tensor<70xf32>)
        -> tensor<8x70xf32>
    return %0, %1, %2, %3, %4 : tensor<8x70xf32>, tensor<8x70xf32>,
      tensor<8x20xf32>, tensor<8x20xf32>, tensor<8x70xf32>
  })";

TEST_F(TargetTest, PacksAWeightOnceALayout) {
  func::FuncOp function = lower(kProductsOfAWeight, "cpu");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::PackOp>(function), 0);
  std::vector<double> expected = evaluate(function);

  function = lower(kProductsOfAWeight, "particular");
  ASSERT_TRUE(function);
  SmallVector<Value> packed;
  for (auto pack : function.getOps<exec::PackOp>()) {
    EXPECT_EQ(pack.getTrans(), !packed.empty());
    packed.push_back(pack.getDst());
    EXPECT_EQ(cast<MemRefType>(pack.getDst().getType()).getNumElements(), 1403);
  }
  ASSERT_EQ(packed.size(), 2u);
  SmallVector<Value> read;
  for (auto gemm : function.getOps<exec::GemmOp>()) {
    EXPECT_TRUE(gemm.getPackedB());
    EXPECT_FALSE(gemm.getTransB());
    EXPECT_EQ(gemm.getLdb(), 1403u);
    read.push_back(gemm.getB());
  }
  EXPECT_EQ(read, (SmallVector<Value>{packed[0], packed[0], packed[1],
                                      packed[1], packed[0]}));
  EXPECT_EQ(evaluate(function), expected);
}

TEST_F(TargetTest, PacksWhereTheProcessorGains) {
  func::FuncOp function = lower(kProductsOfAWeight, "cpu", "x86-64-v3");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::PackOp>(function), 0);
  // Transposed, and with a bias: both in blocks of 16 x 64.
  function = lower(kProductsOfAWeight, "cpu", "x86-64-v4");
  ASSERT_TRUE(function);
  SmallVector<int64_t> elements;
  for (auto pack : function.getOps<exec::PackOp>())
    elements.push_back(
        cast<MemRefType>(pack.getDst().getType()).getNumElements());
  EXPECT_EQ(elements, (SmallVector<int64_t>{80 * 64, 32 * 128}));
  SmallVector<bool> isPacked;
  for (auto gemm : function.getOps<exec::GemmOp>())
    isPacked.push_back(gemm.getPackedB());
  EXPECT_EQ(isPacked, (SmallVector<bool>{false, false, true, true, true}));
}

TEST_F(TargetTest, KnowsItsProcessors) {
  EXPECT_FALSE(lower(kProductsOfAWeight, "particular", "x86-64"));
  EXPECT_FALSE(lower(kProductsOfAWeight, "cpu", "abacus"));
}

// What changes within the function is no weight.
TEST_F(TargetTest, PacksParametersOnly) {
  func::FuncOp function = lower(R"(
    func.func @f(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
      %0 = optimus.matmul %x, %w
        : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32>
    })", "particular");
  ASSERT_TRUE(function);
  EXPECT_EQ(count<exec::PackOp>(function), 0);
}

TEST_F(TargetTest, PacksGatheredAndScatteredRows) {
  expectSame(R"(
    #cut = #ccl.local<[4, 6, 2], #optimus.sharding<@mesh, [{}, {"col"}, {}]>>
    #partial = #ccl.local<[4, 6, 2],
      #optimus.sharding<@mesh, [{}, {}, {}], unreduced = {"col"}>>
    optimus.mesh @mesh <["row" = 2, "col" = 3]>
    func.func @f(%x: tensor<4x2x2xf32, #cut>, %p: tensor<4x6x2xf32, #partial>)
        -> (tensor<4x6x2xf32>, tensor<4x2x2xf32, #cut>, tensor<4x6x2xf32>) {
      %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64}
        : (tensor<4x2x2xf32, #cut>) -> tensor<4x6x2xf32>
      %1 = ccl.reduce_scatter %p {axis = "col", dim = 1 : i64}
        : (tensor<4x6x2xf32, #partial>) -> tensor<4x2x2xf32, #cut>
      %2 = ccl.all_reduce %p {axis = "col"}
        : (tensor<4x6x2xf32, #partial>) -> tensor<4x6x2xf32>
      return %0, %1, %2
        : tensor<4x6x2xf32>, tensor<4x2x2xf32, #cut>, tensor<4x6x2xf32>
    })");
}

// Panels that are columns of their owner's shard.
TEST_F(TargetTest, PacksBroadcastAndReducedPanels) {
  expectSame(R"(
    #x = #ccl.local<[8, 12], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
    #w = #ccl.local<[12, 2, 6, 2],
      #optimus.sharding<@mesh, [{"col"}, {}, {"row"}, {}]>>
    #y = #ccl.local<[8, 2, 6, 2],
      #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
    optimus.mesh @mesh <["row" = 2, "col" = 3]>
    func.func @f(%x: tensor<4x4xf32, #x>, %w: tensor<4x2x3x2xf32, #w>)
        -> tensor<4x2x2x2xf32, #y> {
      %0 = ccl.matmul %x, %w {stationary = "a", panels = 6 : i64}
        : (tensor<4x4xf32, #x>, tensor<4x2x3x2xf32, #w>)
          -> tensor<4x2x2x2xf32, #y>
      return %0 : tensor<4x2x2x2xf32, #y>
    })");
}
} // namespace
