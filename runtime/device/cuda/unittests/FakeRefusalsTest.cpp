//===- FakeRefusalsTest.cpp - What the fake driver refuses ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Refused calls of the driver, none of which our device makes: docs/cuda-fakes.md has
// a table.
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "Driver.h"

using namespace optrt;
using namespace optrt::cuda;

namespace {

class FakeRefusalsTest : public FakeGpuTest {
protected:
  FakeRefusalsTest() : api((*Driver::open())->api()) {
    stream = static_cast<Stream>(device->nativeQueue(kCompute));
  }

  const DriverApi &api;
  Stream stream;
};

TEST_F(FakeRefusalsTest, AMemsetOfPageableMemory) {
  char here[16] = {1};
  const auto address = reinterpret_cast<Address>(&here);
  EXPECT_EQ(api.memsetD8Async(address, 0, sizeof(here), stream), kInvalidValue);
  EXPECT_EQ(api.memsetD2D8Async(address, 8, 0, 4, 2, stream), kInvalidValue);
  EXPECT_EQ(api.memsetD32Async(address, 0, 4, stream), kInvalidValue);
  EXPECT_EQ(here[0], 1);
  auto pinned = device->allocateOnHost(16, "a test");
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(api.memsetD8Async(reinterpret_cast<Address>(pinned->data()), 0, 16,
                              stream),
            kSuccess);
  EXPECT_TRUE(device->synchronize().ok());
}

TEST_F(FakeRefusalsTest, TheTimeOfACapturedEvent) {
  EventHandle events[2];
  for (EventHandle &event : events)
    ASSERT_EQ(api.eventCreate(&event, 0), kSuccess);
  auto recordBoth = [&] {
    for (EventHandle event : events)
      EXPECT_EQ(api.eventRecord(event, stream), kSuccess);
  };
  float milliseconds = 0;
  ASSERT_TRUE(device->beginRecording().ok());
  recordBoth();
  ASSERT_TRUE(device->endRecording().ok());
  EXPECT_EQ(api.eventElapsedTime(&milliseconds, events[0], events[1]),
            kCapturedEvent);
  // Recorded again, they have times.
  recordBoth();
  ASSERT_TRUE(device->synchronize().ok());
  EXPECT_EQ(api.eventElapsedTime(&milliseconds, events[0], events[1]),
            kSuccess);
  for (EventHandle event : events)
    api.eventDestroy(event);
}

} // namespace
