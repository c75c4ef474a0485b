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

#include "EmulatedKernels.h"
#include "EmulatedMemory.h"

#include "optimus-support/Dropout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
