//===- EmulatorTest.cpp - What the emulator finds ------------* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The emulator is only worth something if it finds mistakes: kernels with one
// mistake each, in the schedule, in the code or in the launch.
//
//===----------------------------------------------------------------------===//

#include "EmulatedBlock.h"
#include "EmulatedKernels.h"
#include "EmulatedMemory.h"

#include "optimus-support/Dropout.h"

#include "llvm/Support/FormatVariadic.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <bit>
#include <cmath>

using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using emulator::Order;
using testing::HasSubstr;

namespace {

using Floats = std::vector<float>;

Floats count(size_t n) {
  Floats values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = 0.25f + float(i * 37 % 101) / 64;
  return values;
}

/// Takes the line of this number, among the lines with both texts, out of the
/// code; fails without it.
void dropLine(std::string &ir, llvm::StringRef text, llvm::StringRef other = "",
              int number = 0) {
  for (size_t begin = 0; begin < ir.size();) {
    size_t end = ir.find('\n', begin) + 1;
    llvm::StringRef line = llvm::StringRef(ir).slice(begin, end);
    if (line.contains(text) && line.contains(other) && number-- == 0) {
      ir.erase(begin, end - begin);
      return;
    }
    begin = end;
  }
  FAIL() << "the code has no such line";
}

/// Column sums of a block that goes on to more columns.
struct ColumnSums {
  static constexpr int64_t rows = 70, cols = 16;

  std::string run(const std::function<void(std::string &)> &change) {
    size_t number = kernels.add(SumLeading{rows, cols});
    if (std::string failed = kernels.compile(change); !failed.empty())
      return failed;
    return kernels.runOnce(number, {x.data(), sums.data()}, 1, Order::Forward);
  }

  EmulatedKernels kernels;
  Floats x = count(rows * cols), sums = Floats(cols, -1);
};

constexpr const char *kBarrier =
    "call void @llvm.nvvm.barrier.cta.sync.aligned.all(";

TEST(Emulator, RunsWhatIsRight) {
  ColumnSums right;
  EXPECT_EQ(right.run([](std::string &) {}), "");
  for (int64_t j = 0; j < ColumnSums::cols; ++j) {
    float sum = 0; // Quarters and sixty-fourths add exactly.
    for (int64_t i = 0; i < ColumnSums::rows; ++i)
      sum += right.x[i * ColumnSums::cols + j];
    EXPECT_EQ(right.sums[j], sum);
  }
}

TEST(Emulator, FindsAMissingBarrier) {
  // Before parts are read first, and between two steps of their sum.
  for (int number : {1, 3}) {
    ColumnSums wrong;
    EXPECT_THAT(
        wrong.run([&](std::string &ir) { dropLine(ir, kBarrier, "", number); }),
        testing::AnyOf(HasSubstr("no barrier is in between"),
                       HasSubstr("which no thread of the block wrote")))
        << number;
  }
}

TEST(Emulator, FindsStaleSharedMemory) {
  ColumnSums wrong;
  // What threads know goes nowhere.
  EXPECT_THAT(wrong.run([](std::string &ir) {
    dropLine(ir, "  store float ", "addrspace(3)");
  }),
              HasSubstr("which no thread of the block wrote"));
}

TEST(Emulator, FindsAWrongShuffle) {
  const int64_t rows = 3, n = 64;
  Floats x = count(rows * n), gamma(n, 1), beta(n, 0);
  Floats results[2];
  for (bool isWrong : {false, true}) {
    EmulatedKernels kernels;
    size_t number = kernels.add(LayerNorm{rows, n, 1e-5});
    ASSERT_EQ(kernels.compile([&](std::string &ir) {
      llvm::StringRef right = ", i32 16, i32 31)";
      size_t at = ir.find(right);
      ASSERT_NE(at, std::string::npos);
      if (isWrong)
        ir.replace(at, right.size(), ", i32 8, i32 31)");
    }),
              "");
    Floats y(rows * n), mean(rows), rstd(rows);
    EXPECT_EQ(kernels.runOnce(number,
                              {x.data(), gamma.data(), beta.data(), y.data(),
                               mean.data(), rstd.data()},
                              1, Order::Forward),
              "");
    results[isWrong] = mean;
  }
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += x[row * n + i];
    EXPECT_EQ(results[0][row], sum / n);
    EXPECT_NE(results[1][row], sum / n);
  }
}

TEST(Emulator, FindsAnOverrun) {
  EmulatedKernels kernels;
  size_t number = kernels.add(kernels.elementwise<GeluOp>(100));
  ASSERT_EQ(kernels.compile(), "");
  Floats x = count(104), y(104);
  EXPECT_EQ(kernels.runOnce(number, {x.data(), y.data()}, 1, Order::Forward),
            "");
  EXPECT_THAT(kernels.runOnce(number, {x.data(), y.data()}, 1, Order::Forward,
                              /*moreIterations=*/1),
              HasSubstr("reads 4 bytes at 400 of 'operand0', which has 400"));
  // Not where a load of 16 bytes may begin.
  EXPECT_THAT(
      kernels.runOnce(number, {x.data() + 1, y.data()}, 1, Order::Forward),
      HasSubstr("not aligned to 16"));
}

struct StoresByAll final : CudaSchedule {
  void once(KernelBuilder &, llvm::function_ref<void()> body) const override {
    body();
  }
};

TEST(Emulator, FindsAUniformStoreByAll) {
  const StoresByAll schedule;
  EmulatedKernels kernels(schedule);
  const int64_t rows = 3, n = 64;
  size_t number = kernels.add(RowDot{rows, n, false});
  ASSERT_EQ(kernels.compile(), "");
  Floats a = count(rows * n), b = count(rows * n), sums(rows);
  EXPECT_THAT(kernels.runOnce(number, {a.data(), b.data(), sums.data()}, 1,
                              Order::Forward),
              HasSubstr("of 'sums', which thread 0 of block 0 wrote"));
}

struct NeverSeparates final : CudaSchedule {
  void separate(KernelBuilder &) const override {}
};

TEST(Emulator, FindsThreadsThatNeverCameTogether) {
  const NeverSeparates schedule;
  EmulatedKernels kernels(schedule);
  const int64_t rows = 2;
  size_t numbers[] = {
      kernels.add(Dropout{{rows, 35}, {rows, 35}, 0, 0.3}, {7}),
      kernels.add(SoftmaxSums{rows, 100, /*grad=*/true}, {0, 100}),
      kernels.add(SoftmaxSums{rows, 5000, /*grad=*/true}, {0, 5000}),
      kernels.add(LogitSums{rows, 5000, /*grad=*/true}, {0, 5000})};
  ASSERT_EQ(kernels.compile(), "");
  // Read 16 bytes at a time.
  alignas(16) auto words = optimus_support::randomWords(1, 2, 0);
  Floats x = count(rows * 5000), result(rows * 35), sums(2 * rows);
  std::vector<int32_t> targets = {50, 70};
  std::vector<void *> softmax = {x.data(), targets.data(), sums.data()};
  EXPECT_THAT(kernels.runOnce(numbers[0],
                              {x.data(), words.data(), result.data()}, 1,
                              Order::Forward),
              HasSubstr("which no thread of the block wrote"));
  for (size_t number : llvm::drop_begin(numbers))
    EXPECT_THAT(kernels.runOnce(number, softmax, 1, Order::Forward),
                HasSubstr("no barrier is in between"));
}

/// Attention of bf16. A block goes on to more rows, and all meet three tiles:
/// the first of the next rows goes where the last was.
struct NarrowAttention {
  static constexpr int64_t seq = 192, dim = 16;

  std::string run(const std::function<void(std::string &)> &change) {
    size_t number =
        kernels.add(Attention{{1, seq, 1, 1, dim}}, {}, {"q", "k", "v", "out"});
    if (std::string failed = kernels.compile(change); !failed.empty())
      return failed;
    return kernels.runOnce(
        number, {q.data(), k.data(), v.data(), out.data(), lse.data()}, 1,
        Order::Forward);
  }
  /// Elements of bf16, small enough for their products to be told apart.
  static std::vector<uint16_t> make(size_t step) {
    std::vector<uint16_t> values(seq * dim);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::bit_cast<uint32_t>(float(i * step % 61) / 32 - 1) >> 16;
    return values;
  }

  EmulatedKernels kernels;
  std::vector<uint16_t> q = make(7), k = make(11), v = make(13),
                        out = std::vector<uint16_t>(seq * dim);
  Floats lse = Floats(seq);
};

// Before a tile is copied over one that the block's last rows met, and between
// a tile's copies and its first reader.
TEST(Emulator, FindsAMissingBarrierOfAttention) {
  for (int number : {0, 1}) {
    NarrowAttention wrong;
    EXPECT_THAT(
        wrong.run([&](std::string &ir) { dropLine(ir, kBarrier, "", number); }),
        testing::AnyOf(HasSubstr("no barrier is in between"),
                       HasSubstr("which no thread of the block wrote")))
        << number;
  }
}

TEST(Emulator, FindsAMissingWaitForCopies) {
  NarrowAttention wrong;
  EXPECT_THAT(wrong.run([](std::string &ir) {
    dropLine(ir, "call void @llvm.nvvm.cp.async.wait.group(");
  }),
              HasSubstr("copies, and has not waited for it"));
}

TEST(Emulator, FindsCopiesWithoutAGroup) {
  NarrowAttention wrong;
  EXPECT_THAT(wrong.run([](std::string &ir) {
    dropLine(ir, "call void @llvm.nvvm.cp.async.commit.group(");
  }),
              HasSubstr("copies, and has not waited for it"));
}

/// Gives the lanes of a load of matrices the rows of their neighbours.
void swapRows(std::string &ir, llvm::StringRef load) {
  const int64_t rowBytes = (NarrowAttention::dim + 8) * 2;
  size_t at = ir.find(load);
  ASSERT_NE(at, std::string::npos);
  size_t begin = ir.rfind('\n', at) + 1;
  size_t name = ir.find('%', at), end = ir.find(')', name);
  std::string address = ir.substr(name, end - name);
  ir.replace(name, end - name, "%wrong");
  ir.insert(begin, llvm::formatv(R"(
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %odd = trunc i32 %lane to i1
  %step = select i1 %odd, i64 {0}, i64 {1}
  %wrong = getelementptr i8, ptr addrspace(3) {2}, i64 %step
)",
                                 -rowBytes, rowBytes, address)
                       .str());
}

TEST(Emulator, FindsWrongLanesOfMatrices) {
  NarrowAttention right;
  ASSERT_EQ(right.run([](std::string &) {}), "");
  const std::string load = "@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.";
  // Of keys, of values, and these not transposed.
  for (const char *kind : {"b16.p3(ptr", "trans.b16.p3(ptr"}) {
    NarrowAttention wrong;
    ASSERT_EQ(wrong.run([&](std::string &ir) { swapRows(ir, load + kind); }),
              "");
    EXPECT_NE(wrong.out, right.out) << kind;
  }
  NarrowAttention wrong;
  ASSERT_EQ(wrong.run([&](std::string &ir) {
    size_t at = ir.find(load + "trans.b16.p3(ptr");
    ASSERT_NE(at, std::string::npos);
    ir.erase(at + load.size(), 6);
  }),
            "");
  EXPECT_NE(wrong.out, right.out);
}

// A copy brings its bytes when the thread waits, and not before.
TEST(EmulatedBlock, CopiesWhenAThreadWaits) {
  alignas(16) float x[4] = {1, 2, 3, 4};
  alignas(16) float tile[2][4] = {};
  emulator::EmulatedMemory memory;
  memory.addBuffer("x", x, sizeof x, /*isWritten=*/false);
  memory.addShared("tile", tile, sizeof tile);
  emulator::EmulatedBlock block(memory);
  auto run = [&](const std::function<void()> &kernel) {
    return block.run(0, 1, 1, Order::Forward, kernel);
  };
  EXPECT_EQ(run([&] {
              block.beginCopy({tile[0], x, 16, 16});
              block.commitCopies();
              block.beginCopy({tile[1], x, 16, 8});
              block.commitCopies();
              EXPECT_TRUE(std::isnan(tile[0][0]));
              block.waitForCopies(1);
              EXPECT_THAT(tile[0], testing::ElementsAre(1, 2, 3, 4));
              EXPECT_TRUE(std::isnan(tile[1][0]));
              block.waitForCopies(0);
              EXPECT_THAT(tile[1], testing::ElementsAre(1, 2, 0, 0));
            }),
            "");
  EXPECT_EQ(run([&] {
              block.beginCopy({tile[1], x, 16, 16});
              block.access(tile[1], 4, /*isWrite=*/false, 4);
            }),
            "thread 0 of block 0 reads 4 bytes at 16 of 'tile', which thread 0 "
            "of block 0 copies, and has not waited for it");
  EXPECT_EQ(run([&] {
              block.beginCopy({tile[1], x, 16, 16});
              block.commitCopies();
            }),
            "thread 0 of block 0 ends, and has not waited for its copies");
  EXPECT_EQ(run([&] {
              block.beginCopy({tile[1], x + 1, 16, 16});
            }),
            "thread 0 of block 0 reads 16 bytes where they are not aligned to "
            "16");
}

// Whoever read before a barrier is in nobody's way behind it, though somebody
// reads again there; a reader of another warp or block is.
TEST(EmulatedMemory, KnowsAllReadersOfAnElement) {
  using emulator::ThreadClock;
  float elements[2] = {};
  emulator::EmulatedMemory memory;
  memory.addBuffer("x", elements, sizeof elements, /*isWritten=*/true);
  auto read = [&](const ThreadClock &clock, int64_t at = 0) {
    EXPECT_EQ(memory.access(elements + at, 4, false, 4, clock), "");
  };
  auto write = [&](const ThreadClock &clock, int64_t at = 0) {
    return memory.access(elements + at, 4, true, 4, clock);
  };
  read({.thread = 0});
  read({.thread = 40});
  read({.thread = 1, .barriers = 1});
  EXPECT_EQ(write({.thread = 1, .barriers = 1}), "");
  read({.thread = 0, .barriers = 2});
  read({.thread = 1, .barriers = 2, .syncs = 1, .syncMask = 3});
  EXPECT_EQ(write({.thread = 1, .barriers = 2, .syncs = 1, .syncMask = 3}), "");
  read({.thread = 2, .barriers = 3});
  read({.thread = 1, .barriers = 3, .syncs = 1, .syncMask = 3});
  EXPECT_THAT(write({.thread = 1, .barriers = 3, .syncs = 1, .syncMask = 3}),
              HasSubstr("no barrier is in between"));
  read({.thread = 40, .barriers = 4});
  read({.thread = 1, .barriers = 4});
  EXPECT_THAT(write({.thread = 1, .barriers = 4}),
              HasSubstr("no barrier is in between"));
  read({.block = 0}, 1);
  read({.block = 1, .barriers = 4}, 1);
  EXPECT_THAT(write({.block = 1, .barriers = 5}, 1),
              HasSubstr("no barrier is in between"));
}

} // namespace
