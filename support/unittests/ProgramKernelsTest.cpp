//===- ProgramKernelsTest.cpp - Launches fit their kernels ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramTest.h"

#include "optimus-support/ProgramKernels.h"
#include "optimus-support/ProgramPrinter.h"

#include <limits>

using namespace optimus_support;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// One function on a mesh row:2,col:3 with a launch of "embed": tokens, rows of
/// so many numbers, a factor.
class ProgramKernelsTest : public ProgramTest {
protected:
  void describeEmbed() {
    programs.kernel("embed",
                    {{Access::Read, {perIteration()}, ElementType::I32},
                     {Access::Write, {once(2), perIteration(1, 0)}}},
                    {{.least = 1, .most = 8}, {.type = ElementType::F32}},
                    /*iterations=*/6);
  }
  void launch(const Iterations &iterations, View in, View out,
              const Sum &length) {
    f.launch("embed", iterations, {read(in), write(out)},
             {f.integer(length), f.real(0.5f)});
  }

  FunctionWriter f = programs.function("f");
  View tokens = f.argument(ElementType::I32, 6);
  View rows = f.arena(ElementType::F32, 64);
};

TEST_F(ProgramKernelsTest, SizesFollowIterationsAndScalars) {
  describeEmbed();
  // 2 + 6 * 8 numbers, on the ranks that ask for most.
  launch({.extent = 6}, tokens, f.at(rows, 0, 50),
         {.constant = 4, .terms = {Term(2, 1)}});
  ProgramsT all = programs.finish();
  Status status = check(all);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(program::describe(*all.targets.front()->kernels[0]),
            "embed(1*iterations i32 read, 2+1*iterations*scalar0 f32 write; "
            "i64 1 to 8, f32) of 6 iterations");
}

TEST_F(ProgramKernelsTest, BuffersAreLargeEnough) {
  describeEmbed();
  launch({.extent = 6}, tokens, f.at(rows, 0, 49),
         {.constant = 4, .terms = {Term(2, 1)}});
  refuse("target cpu: function f: command 0 (launch): buffer 1 of embed: has 1 "
         "rows of 196 bytes; the kernel needs one of 200");
}

TEST_F(ProgramKernelsTest, BuffersAreWithoutGaps) {
  describeEmbed();
  launch({.extent = 6}, tokens, f.at(rows, 0, 50), {.constant = 8});
  OperandT &out = *f.command(0).operands[1];
  out.rows = 2;
  out.row_bytes = 100;
  out.pitch = 104;
  refuse("has 2 rows of 100 bytes; the kernel needs one of 200");
}

TEST_F(ProgramKernelsTest, BuffersAreOfItsTypes) {
  describeEmbed();
  launch({}, f.at(rows, 56, 8), rows, {.constant = 1});
  refuse("buffer 0 of embed: is of f32; the kernel takes i32");
}

TEST_F(ProgramKernelsTest, BuffersAreTouchedAsItDoes) {
  describeEmbed();
  launch({}, tokens, rows, {.constant = 1});
  f.command(0).operands[1]->access = Access::Read;
  refuse("buffer 1 of embed: is not touched as the kernel does");
}

TEST_F(ProgramKernelsTest, IterationsAreWithinBounds) {
  describeEmbed();
  launch({.extent = 7}, f.argument(ElementType::I32, 7), rows, {.constant = 1});
  refuse("runs 7 iterations of embed; it bears 6");
}

TEST_F(ProgramKernelsTest, ScalarsAreWithinBounds) {
  describeEmbed();
  launch({}, tokens, rows, {.constant = 5, .terms = {Term(2, 1)}});
  refuse("scalar 0 of embed may be from 5 to 9; it takes 1 to 8");
}

TEST_F(ProgramKernelsTest, ScalarsAreOfItsTypes) {
  describeEmbed();
  f.launch("embed", {}, {read(tokens), write(rows)}, {f.real(1), f.real(1)});
  refuse("scalar 0 of embed: expected i64");
}

TEST_F(ProgramKernelsTest, OperandsAreAsMany) {
  describeEmbed();
  f.launch("embed", {}, {read(tokens)}, {f.real(1)});
  refuse("gives embed 1 buffers and 1 scalars; it takes 2 and 2");
}

/// A kernel without a signature takes the operands common to its launches.
TEST_F(ProgramKernelsTest, LaunchesTellWhatTheyTake) {
  f.launch("gelu", {.extent = 4}, {read(rows), update(f.at(rows, 32, 8))},
           {f.integer({.constant = 3})});
  f.launch("gelu", {.extent = 2},
           {read(f.at(rows, 0, 16)), write(f.at(rows, 32, 12))},
           {f.integer({.terms = {Term(4, 0)}})});
  ProgramsT all = programs.finish();
  Status status = check(all);
  EXPECT_TRUE(status.ok()) << status.message();
  const KernelT &gelu = *all.targets.front()->kernels[0];
  EXPECT_EQ(program::describe(gelu),
            "gelu(16 f32 read, 8 f32 write; i64 0 to 4) of 4 iterations");
  all.targets.front()
      ->tables[0]
      ->functions[0]
      ->commands[0]
      ->operands[0]
      ->row_bytes = 60;
  EXPECT_THAT(check(all).message(), HasSubstr("the kernel needs one of 64"));
}

/// A kernel that reduces takes every rank's source, and the destination.
TEST_F(ProgramKernelsTest, ReductionsFitTheirKernels) {
  auto reduce = [&](CollectiveKind kind, uint32_t kernel, View src, View dst) {
    CollectiveT one;
    one.kind = kind;
    one.axes = {1};
    one.outer = 1;
    one.inner = 8;
    one.kernel = kernel;
    f.wait(f.collective(std::move(one), src, dst));
  };
  const uint32_t toAll = programs.kernel("sum_to_all"),
                 toOne = programs.kernel("sum");
  reduce(CollectiveKind::AllReduce, toAll, f.at(rows, 0, 8), f.at(rows, 0, 8));
  reduce(CollectiveKind::ReduceScatter, toOne, f.at(rows, 0, 24),
         f.at(rows, 32, 8));
  ProgramsT all = programs.finish();
  Status status = check(all);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(program::describe(*all.targets.front()->kernels[1]),
            "sum(8 f32 read, 8 f32 read, 8 f32 read, 8 f32 write) of 8 "
            "iterations");
  uint32_t &kernel = all.targets.front()
                         ->tables[0]
                         ->functions[0]
                         ->commands[0]
                         ->action.AsCollective()
                         ->kernel;
  kernel = toOne;
  EXPECT_THAT(check(all).message(),
              HasSubstr("reduces by sum(8 f32 read, 8 f32 read, 8 f32 read, 8 "
                        "f32 write) of 8 iterations; expected (8 f32 read"));
  kernel = 2;
  EXPECT_THAT(check(all).message(), HasSubstr("reduces by kernel 2 of 2"));
}

TEST_F(ProgramKernelsTest, SumsOfAProductFitTheirKernel) {
  const View x = f.arena(ElementType::F32, 8),
             dy = f.arena(ElementType::F32, 12),
             dw = f.arena(ElementType::F32, 6),
             db = f.arena(ElementType::F32, 3);
  GemmT gemm;
  gemm.m = 2;
  gemm.n = gemm.ldb = gemm.ldc = 3;
  gemm.k = 4;
  gemm.lda = 2;
  gemm.trans_a = true;
  gemm.epilogue = Epilogue::BiasGrad;
  gemm.kernel = programs.kernel("sum_rows");
  f.gemm(gemm, {.a = x, .b = dy, .c = dw, .bias = db});
  ProgramsT all = programs.finish();
  Status status = check(all);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(program::describe(*all.targets.front()->kernels[0]),
            "sum_rows(12 f32 read, 3 f32 write) of 3 iterations");
  GemmT &product = *all.targets.front()
                        ->tables[0]
                        ->functions[0]
                        ->commands[0]
                        ->action.AsGemm();
  product.kernel = 1;
  EXPECT_THAT(check(all).message(),
              HasSubstr("sums rows of B by kernel 1 of 1"));
  product.kernel = 4294967295;
  EXPECT_THAT(check(all).message(),
              HasSubstr("sums rows of B without a kernel"));
  product.kernel = 0;
  product.accumulate = true;
  EXPECT_THAT(check(all).message(),
              HasSubstr("expected rows one after the other, of a product that "
                        "does not accumulate"));
}

TEST_F(ProgramKernelsTest, CopiesFitTheirKernels) {
  const View panel = f.arena(ElementType::F32, 12);
  CopyT copy;
  copy.rows = 3;
  copy.cols = 4;
  copy.src_ld = 16;
  copy.dst_ld = 4;
  copy.kernel = programs.kernel("copy_rows");
  f.copy(copy, f.at(rows, 0, 36), panel);
  // Fewer rows are the same code.
  copy.rows = 2;
  f.copy(copy, f.at(rows, 8, 20), panel);
  ProgramsT all = programs.finish();
  Status status = check(all);
  EXPECT_TRUE(status.ok()) << status.message();
  KernelT &kernel = *all.targets.front()->kernels[0];
  EXPECT_EQ(program::describe(kernel),
            "copy_rows(20 f32 read, 8 f32 write) of 12 iterations");
  kernel.iterations = 11;
  EXPECT_THAT(check(all).message(),
              HasSubstr("copies by copy_rows(20 f32 read, 8 f32 write) of 11 "
                        "iterations; expected (36 f32 read, 12 f32 write) of "
                        "12 iterations"));
  kernel.iterations = 12;
  CopyT &first = *all.targets.front()
                      ->tables[0]
                      ->functions[0]
                      ->commands[0]
                      ->action.AsCopy();
  first.kernel = 1;
  EXPECT_THAT(check(all).message(), HasSubstr("copies by kernel 1 of 1"));
}

TEST_F(ProgramKernelsTest, HashesTellSignaturesApart) {
  describeEmbed();
  ProgramsT all = programs.finish();
  KernelT &kernel = *all.targets.front()->kernels[0];
  const uint64_t hash = signatureHash(kernel);
  kernel.buffers[1]->extents[0] = once(3);
  EXPECT_NE(signatureHash(kernel), hash);
  kernel.buffers[1]->extents[0] = once(2);
  EXPECT_EQ(signatureHash(kernel), hash);
  kernel.scalars[0]->most = 9;
  EXPECT_NE(signatureHash(kernel), hash);
}

/// What predictions ask of a kernel is part of its signature.
TEST_F(ProgramKernelsTest, SignaturesTellWork) {
  describeEmbed();
  ProgramsT all = programs.finish();
  KernelT &kernel = *all.targets.front()->kernels[0];
  const uint64_t hash = signatureHash(kernel);
  kernel.buffers[1]->by_columns = true;
  const uint64_t byColumns = signatureHash(kernel);
  EXPECT_NE(byColumns, hash);
  kernel.attention = std::make_unique<KernelAttentionT>();
  kernel.attention->flops = 4096;
  kernel.attention->seq = 8;
  kernel.attention->head_dim = 16;
  kernel.attention->causal = true;
  EXPECT_NE(signatureHash(kernel), byColumns);
  EXPECT_THAT(
      program::describe(kernel),
      HasSubstr("f32 write by columns; i64 1 to 8, f32) of 6 iterations "
                "of attention, causal, seq 8, head_dim 16, 4096 flops"));
  kernel.attention->flops = -1;
  EXPECT_THAT(check(all).message(),
              HasSubstr("kernel embed: computes attention of seq 8, head_dim "
                        "16 in -1 flops; expected extents from 1 and flops "
                        "from 0 to 1e30"));
  kernel.attention->flops = 1;
  kernel.attention->head_dim = 0;
  EXPECT_THAT(check(all).message(), HasSubstr("head_dim 0 in 1 flops"));
}

TEST_F(ProgramKernelsTest, WorkOfLaunchesIsFinite) {
  describeEmbed();
  launch({.extent = 6}, tokens, f.at(rows, 0, 50), {.constant = 8});
  LaunchT &one = *f.command(0).action.AsLaunch();
  one.vector_ops = 640;
  one.scalar_ops = 8;
  ProgramsT all = programs.finish();
  EXPECT_TRUE(check(all).ok()) << check(all).message();
  const TargetT &target = *all.targets.front();
  EXPECT_THAT(
      print(all, target, *target.tables[0], *target.tables[0]->functions[0]),
      HasSubstr("50f32 vector_ops=640 scalar_ops=8 bytes="));
  LaunchT &bent =
      *target.tables[0]->functions[0]->commands[0]->action.AsLaunch();
  for (double wrong : {-1.0, 1e31, std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity()}) {
    bent.divisions = wrong;
    EXPECT_THAT(check(all).message(),
                HasSubstr("elements; expected a number from 0 to 1e30"));
  }
}

TEST_F(ProgramKernelsTest, SignaturesMakeSense) {
  auto refuseKernel = [&](const std::vector<Takes> &buffers,
                          const std::vector<Bounds> &scalars,
                          int64_t iterations, const char *message) {
    ProgramWriter one{Mesh({{"row", 1}})};
    one.function("f");
    one.kernel("odd", buffers, scalars, iterations);
    EXPECT_THAT(check(one.finish()).message(),
                HasSubstr(concat("kernel odd: ", message)));
  };
  refuseKernel({}, {}, -1, "bears -1 iterations; expected at least 1");
  refuseKernel({{Access::Read, {once(-1)}}}, {}, 1,
               "buffer 0: touches -1 elements");
  refuseKernel({{Access::Read, {perScalar(0)}}}, {}, 1,
               "buffer 0: touches as many elements as scalar 0 says, which is "
               "no integer");
  refuseKernel({{Access::Read, {perScalar(0)}}}, {{.type = ElementType::F32}},
               1, "buffer 0: touches as many elements as scalar 0");
  refuseKernel({{Access(), {once(1)}}}, {}, 1,
               "buffer 0: has a type or access that is not known");
  refuseKernel({}, {{.type = ElementType::I8}}, 1,
               "scalar 0: expected f32 or i64");
  refuseKernel({}, {{.least = 2, .most = 1}}, 1,
               "scalar 0: no number is from 2 to 1");
}

} // namespace
