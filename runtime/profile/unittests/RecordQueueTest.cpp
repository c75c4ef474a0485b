//===- RecordQueueTest.cpp - Records on their way to the file -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "profile/RecordQueue.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>

using namespace optrt;

namespace {

RecordQueue::Record recordOf(RecordQueue &queue, int64_t step) {
  RecordQueue::Record record = queue.take();
  record->step = step;
  record->commands.resize(100);
  return record;
}

TEST(RecordQueue, RecordsComeInOrderAndGoBack) {
  RecordQueue queue(1 << 20);
  queue.put(recordOf(queue, 1));
  queue.put(nullptr);
  queue.put(recordOf(queue, 2));
  RecordQueue::Record record;
  ASSERT_TRUE(queue.get(record));
  EXPECT_EQ(record->step, 1);
  const CallRecord *first = record.get();
  queue.giveBack(std::move(record));
  ASSERT_TRUE(queue.get(record));
  EXPECT_EQ(record, nullptr);
  ASSERT_TRUE(queue.get(record));
  EXPECT_EQ(record->step, 2);
  // With the memory that it had.
  RecordQueue::Record again = queue.take();
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(again->commands.size(), 100u);
}

TEST(RecordQueue, WhatWaitsIsBounded) {
  // Room for one record and a half.
  RecordQueue queue(2400);
  ASSERT_LT(recordOf(queue, 0)->bytes(), 2400u);
  ASSERT_GT(2 * recordOf(queue, 0)->bytes(), 2400u);
  std::atomic<int> numPut = 0;
  std::thread rank([&] {
    for (int step = 1; step <= 3; ++step) {
      queue.put(recordOf(queue, step));
      ++numPut;
    }
  });
  RecordQueue::Record record;
  for (int step = 1; step <= 3; ++step) {
    ASSERT_TRUE(queue.get(record));
    EXPECT_EQ(record->step, step);
    // The next one waits for this one to be written.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(numPut, step);
    queue.giveBack(std::move(record));
  }
  rank.join();
}

TEST(RecordQueue, OneThatIsTooLargeGoesAlone) {
  RecordQueue queue(1);
  queue.put(recordOf(queue, 1));
  RecordQueue::Record record;
  ASSERT_TRUE(queue.get(record));
  EXPECT_EQ(record->step, 1);
}

TEST(RecordQueue, AClosedOneGivesWhatItHasAndKeepsNobodyWaiting) {
  RecordQueue queue(1);
  queue.put(recordOf(queue, 1));
  std::thread rank([&] { queue.put(recordOf(queue, 2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  queue.close();
  rank.join();
  RecordQueue::Record record;
  ASSERT_TRUE(queue.get(record));
  EXPECT_EQ(record->step, 1);
  EXPECT_FALSE(queue.get(record));
}

} // namespace
