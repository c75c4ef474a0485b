//===- LaunchAndCopyTest.cpp - Kernels and copies -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MaxThreads.h"
#include "optimus-runtime/CpuDevice.h"

#include <atomic>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>
#include <vector>

using namespace optrt;

namespace {

struct Visits {
  std::vector<std::atomic<int>> rows;
  std::atomic<int> tasks = 0;
  std::atomic<int64_t> least = INT64_MAX;
};

void countVisits(int64_t begin, int64_t end, void *const *args) {
  Visits &visits = *static_cast<Visits *>(args[0]);
  for (int64_t row = begin; row < end; ++row)
    ++visits.rows[row];
  ++visits.tasks;
  int64_t least = visits.least;
  while (end - begin < least &&
         !visits.least.compare_exchange_weak(least, end - begin))
    ;
}

TEST(Launch, EveryIterationOnceInTasksOfTheGrain) {
  for (int threads = 1; threads <= maxThreads; ++threads)
    for (int64_t extent : {0, 1, 7, 64, 1000})
      for (int64_t grain : {0, 1, 16, 2000}) {
        CpuDevice device(threads);
        Visits visits;
        visits.rows = std::vector<std::atomic<int>>(extent);
        void *args[] = {&visits};
        ASSERT_TRUE(device
                        .launch(kCompute, {"count", extent, grain, 1, 0},
                                hostKernel("count", countVisits), args)
                        .ok());
        for (auto &row : visits.rows)
          ASSERT_EQ(row, 1);
        int64_t tasks =
            extent ? std::max<int64_t>(
                         1, std::min<int64_t>(
                                threads, extent / std::max<int64_t>(grain, 1)))
                   : 0;
        EXPECT_EQ(visits.tasks, tasks);
        if (tasks > 1) {
          EXPECT_GE(visits.least, grain);
        }
      }
}

void noteThread(int64_t, int64_t, void *const *args) {
  *static_cast<std::thread::id *>(args[0]) = std::this_thread::get_id();
}

TEST(Launch, OneTaskRunsOnTheCaller) {
  CpuDevice device(maxThreads);
  std::thread::id where;
  void *args[] = {&where};
  ASSERT_TRUE(device
                  .launch(kCompute, {"note", 3, 2, 1, 0},
                          hostKernel("note", noteThread), args)
                  .ok());
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(Launch, WrongDescriptorsAreRefused) {
  CpuDevice device(1);
  Status status = device.launch(kCompute, {"lost", -1, 1, 0, 0},
                                hostKernel("lost", noteThread), nullptr);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find("'lost'"), std::string::npos);
  status = device.launch(kCompute, {nullptr, 1, 1, 0, 0},
                         hostKernel("none", nullptr), nullptr);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find("no code for processors"), std::string::npos);
}

TEST(Copy, StridedAndZeros) {
  // The last two are big enough to be shared among threads.
  struct Shape {
    int64_t rows, cols, srcLd, dstLd;
  } shapes[] = {{0, 5, 5, 5},
                {5, 0, 5, 5},
                {1, 7, 7, 7},
                {3, 4, 6, 9},
                {4, 8, 8, 8},
                {1000, 300, 301, 303},
                {2, 150000, 150000, 150000}};
  for (int threads : {1, maxThreads})
    for (const Shape &s : shapes)
      for (bool zeros : {false, true}) {
        CpuDevice device(threads);
        std::vector<float> src(s.rows * s.srcLd), dst(s.rows * s.dstLd, -1.f);
        std::iota(src.begin(), src.end(), 1.f);
        ASSERT_TRUE(device
                        .copy(kCompute,
                              {s.rows, s.cols, s.srcLd, s.dstLd, sizeof(float)},
                              zeros ? nullptr : src.data(), dst.data())
                        .ok());
        for (int64_t r = 0; r < s.rows; ++r)
          for (int64_t c = 0; c < s.dstLd; ++c)
            ASSERT_EQ(dst[r * s.dstLd + c], c >= s.cols ? -1.f
                                            : zeros     ? 0.f
                                                        : src[r * s.srcLd + c])
                << r << " " << c;
      }
}

/// Rows of elements of other sizes: bytes between them stay as they are.
TEST(Copy, ElementsOfEverySize) {
  constexpr int64_t kRows = 3, kCols = 5, kSrcLd = 7, kDstLd = 6;
  for (int64_t bytes : {1, 2, 8})
    for (bool zeros : {false, true}) {
      CpuDevice device(maxThreads);
      std::vector<unsigned char> src(kRows * kSrcLd * bytes),
          dst(kRows * kDstLd * bytes, 255);
      std::iota(src.begin(), src.end(), 1);
      ASSERT_TRUE(device
                      .copy(kCompute, {kRows, kCols, kSrcLd, kDstLd, bytes},
                            zeros ? nullptr : src.data(), dst.data())
                      .ok());
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t b = 0; b < kDstLd * bytes; ++b)
          ASSERT_EQ(dst[r * kDstLd * bytes + b],
                    b >= kCols * bytes ? 255
                    : zeros            ? 0
                                       : src[r * kSrcLd * bytes + b])
              << bytes << " " << r << " " << b;
    }
}

TEST(Copy, WrongDescriptorsAreRefused) {
  CpuDevice device(1);
  float x[8] = {}, y[8];
  EXPECT_EQ(device.copy(kCompute, {2, 4, 3, 4, 4}, x, y).code(),
            StatusCode::InvalidArgument);
  EXPECT_EQ(device.copy(kCompute, {2, -4, 4, 4, 4}, x, y).code(),
            StatusCode::InvalidArgument);
  EXPECT_EQ(device.copy(kCompute, {2, 4, 4, 4, 4}, x, nullptr).code(),
            StatusCode::InvalidArgument);
  EXPECT_EQ(device.copy(kCompute, {2, 4, 4, 4, 0}, x, y).code(),
            StatusCode::InvalidArgument);
  // Sizes whose product is more than any memory, or does not fit 64 bits.
  constexpr int64_t kMany = int64_t(1) << 40;
  for (optrt_copy_desc d : {optrt_copy_desc{kMany, kMany, kMany, kMany, 4},
                            {2, 4, INT64_MAX, 4, 4},
                            {2, 4, 4, INT64_MAX, 4},
                            {1, INT64_MAX, 4, 4, 4}}) {
    Status status = device.copy(kCompute, d, x, y);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find("expects matrices of at most"),
              std::string::npos)
        << status.message();
  }
}

TEST(Allocation, WrongSizesAreRefused) {
  CpuDevice device(1);
  for (int64_t bytes : {int64_t(-1), INT64_MAX, (int64_t(1) << 52) + 1}) {
    auto memory = device.allocate(bytes, "a test");
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.status().code(), StatusCode::InvalidArgument);
    EXPECT_EQ(memory.status().message(),
              concat("cannot allocate ", bytes,
                     " bytes for a test: expected 0 to 4503599627370496"));
  }
}

/// Ranks that are threads of one process use their devices at the same time.
TEST(Device, RanksAsThreads) {
  auto rank = [](int threads, float value, bool &ok) {
    CpuDevice device(threads);
    std::vector<float> a(64 * 32, value), b(32 * 48, 1.f), c(64 * 48);
    optrt_gemm_desc d = {};
    d.m = 64, d.n = 48, d.k = 32, d.lda = 32, d.ldb = 48, d.ldc = 48;
    ok = true;
    for (int repeat = 0; repeat < 20; ++repeat) {
      ok &=
          device
              .gemm(kCompute, d, a.data(), b.data(), c.data(), nullptr, nullptr)
              .ok();
      // A sum of equal powers of two is exact.
      for (float x : c)
        ok &= x == 32 * value;
    }
  };
  bool ok[3];
  std::thread first(rank, 1, 1.f, std::ref(ok[0]));
  std::thread second(rank, 1, 2.f, std::ref(ok[1]));
  std::thread third(rank, maxThreads, 4.f, std::ref(ok[2]));
  first.join();
  second.join();
  third.join();
  EXPECT_TRUE(ok[0] && ok[1] && ok[2]);
}

} // namespace
