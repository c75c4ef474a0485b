//===- SharedCacheTest.cpp - Bytes of data that a machine keeps -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/SharedCache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace optrt;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kPiece = SharedCache::kPieceBytes, kBytes = 10 * kPiece + 7;

class SharedCacheTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "optimus-cache-" +
             testing::UnitTest::GetInstance()->current_test_info()->name() +
             "-" + std::to_string(getpid());
    fs::create_directories(folder);
    data.resize(kBytes);
    for (int64_t i = 0; i != kBytes; ++i)
      data[i] = char(i * 31 / 7);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::unique_ptr<SharedCache> open(int64_t limit,
                                    const std::string &name = "data") {
    auto cache = SharedCache::open(folder, name, kBytes, limit);
    EXPECT_TRUE(cache.ok()) << cache.status().message();
    return cache.ok() ? std::move(*cache) : nullptr;
  }
  /// Whether these bytes are right; `disk` counts those that were not there.
  bool get(SharedCache &cache, int64_t begin, int64_t count) {
    std::vector<char> to(count);
    Status status =
        cache.get(begin, to.data(), count,
                  [this](int64_t from, char *target, int64_t size) -> Status {
                    disk += size;
                    std::memcpy(target, &data[from], size);
                    return okStatus();
                  });
    return status.ok() && !std::memcmp(to.data(), &data[begin], count);
  }
  int64_t files() const {
    return std::distance(fs::directory_iterator(folder), {});
  }

  std::string folder;
  std::vector<char> data;
  std::atomic<int64_t> disk = 0;
};

} // namespace

TEST_F(SharedCacheTest, WhatIsReadFirstStays) {
  auto cache = open(3 * kPiece);
  // Windows across pieces, and the short last one.
  ASSERT_TRUE(get(*cache, 5 * kPiece - 10, 20));
  ASSERT_TRUE(get(*cache, 10 * kPiece, 7));
  EXPECT_EQ(cache->use().kept, 2 * kPiece + 7);
  // A fourth whole one is too much.
  ASSERT_TRUE(get(*cache, 0, kPiece));
  EXPECT_EQ(cache->use().kept, 2 * kPiece + 7);
  disk = 0;
  ASSERT_TRUE(get(*cache, 4 * kPiece, 2 * kPiece));
  ASSERT_TRUE(get(*cache, 10 * kPiece + 3, 4));
  EXPECT_EQ(disk, 0);
  ASSERT_TRUE(get(*cache, 100, 50));
  EXPECT_EQ(disk, 50);
  EXPECT_EQ(cache->use().hits, 2 * kPiece + 4);
}

TEST_F(SharedCacheTest, AMachineFillsItOnce) {
  auto one = open(kBytes), other = open(kBytes);
  EXPECT_EQ(files(), 1);
  ASSERT_TRUE(get(*one, 0, kBytes));
  EXPECT_EQ(disk, kBytes);
  ASSERT_TRUE(get(*other, 0, kBytes));
  EXPECT_EQ(disk, kBytes);
  EXPECT_EQ(other->use().hits, kBytes);
  // Other data, and another limit, have their own.
  auto another = open(kBytes, "other data"), smaller = open(kPiece);
  EXPECT_EQ(files(), 3);
  ASSERT_TRUE(get(*another, 0, 5));
  EXPECT_EQ(disk, kBytes + kPiece);
  one.reset();
  ASSERT_TRUE(get(*other, 3, 4 * kPiece));
  other.reset();
  EXPECT_EQ(files(), 2);
  another.reset();
  smaller.reset();
  EXPECT_EQ(files(), 0);
}

TEST_F(SharedCacheTest, ThreadsReadTheSameBytes) {
  auto cache = open(4 * kPiece);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread != 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i != 500; ++i)
        right +=
            get(*cache, (i * 7919 + thread * 104729) % (kBytes - 3000), 3000);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 2000);
  EXPECT_LE(cache->use().kept, 4 * kPiece);
  EXPECT_GT(cache->use().hits, 0);
}

TEST_F(SharedCacheTest, ErrorsOfReadingAreHandedOn) {
  auto cache = open(kBytes);
  char byte;
  Status status = cache->get(0, &byte, 1, [](int64_t, char *, int64_t) {
    return dataLoss("the disk is gone");
  });
  EXPECT_EQ(status.message(), "the disk is gone");
  EXPECT_EQ(cache->use().kept, 0);
  EXPECT_TRUE(get(*cache, 0, 1));
  auto none = SharedCache::open(folder + "/none", "data", kBytes, kBytes);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::InvalidArgument);
}
