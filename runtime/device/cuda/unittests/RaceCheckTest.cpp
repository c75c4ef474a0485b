//===- RaceCheckTest.cpp - What nothing orders, on a fake GPU -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whatever the turns of the streams, the fake GPU tells of two operations that
// touch the same bytes with nothing between them, and of no others.
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

using namespace optrt;
using testing::AllOf;
using testing::HasSubstr;

namespace {

class RaceCheckTest : public FakeGpuTest {
protected:
  /// What `work` returns, or synchronize() after it, is this in every run.
  template <typename Work>
  void expectRace(Work work, const char *one, const char *other) {
    for (uint64_t seed = 0; seed != 4; ++seed) {
      SCOPED_TRACE(seed);
      start(seed);
      Status status = work(device->queue("axis 0"));
      if (Status later = device->synchronize(); status.ok())
        status = later;
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(one), HasSubstr(other),
                        HasSubstr("and nothing orders the two: an event is "
                                  "missing")));
    }
  }
  template <typename Work>
  void expectNone(Work work) {
    for (uint64_t seed = 0; seed != 4; ++seed) {
      SCOPED_TRACE(seed);
      start(seed);
      Status status = work(device->queue("axis 0"));
      EXPECT_TRUE(status.ok()) << status.message();
      status = device->synchronize();
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  /// The half of each row of 2 numbers.
  Status clearColumn(Queue queue, int64_t column) {
    return device->copy(queue, {8, 1, 0, 2, 4}, nullptr,
                        memory.data() + 4 * column);
  }
};

TEST_F(RaceCheckTest, AMissingEvent) {
  expectRace(
      [&](Queue other) -> Status {
        OPTRT_RETURN_IF_ERROR(addTo(kCompute, memory.data(), 1));
        return doubleAll(other, memory.data());
      },
      "add on stream 0", "double_it on stream 1");
}

TEST_F(RaceCheckTest, AnEventThatIsRecordedTooEarly) {
  expectRace(
      [&](Queue other) -> Status {
        const Event event = device->record(kCompute);
        OPTRT_RETURN_IF_ERROR(addTo(kCompute, memory.data(), 1));
        OPTRT_RETURN_IF_ERROR(device->await(other, event));
        return doubleAll(other, memory.data());
      },
      "add on stream 0", "double_it on stream 1");
}

TEST_F(RaceCheckTest, AWriteOfWhatIsStillRead) {
  expectRace(
      [&](Queue other) -> Status {
        OPTRT_RETURN_IF_ERROR(device->copy(other, {1, 8, 8, 8, 4},
                                           memory.data(), memory.data() + 32));
        return device->clear(kCompute, memory.data(), 4);
      },
      "a copy on stream 1", "a memset on stream 0");
}

TEST_F(RaceCheckTest, TheWaitOfTheWrongStream) {
  expectRace(
      [&](Queue other) -> Status {
        const Queue third = device->queue("axis 1");
        OPTRT_RETURN_IF_ERROR(addTo(kCompute, memory.data(), 1));
        OPTRT_RETURN_IF_ERROR(device->await(third, device->record(kCompute)));
        return doubleAll(other, memory.data());
      },
      "add on stream 0", "double_it on stream 1");
}

TEST_F(RaceCheckTest, AProductsResult) {
  expectRace(
      [&](Queue other) -> Status {
        optrt_gemm_desc desc{};
        desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = 2;
        float *x = reinterpret_cast<float *>(memory.data());
        OPTRT_RETURN_IF_ERROR(
            device->gemm(kCompute, desc, x, x, x + 4, nullptr, nullptr));
        return device->clear(other, memory.data() + 16, 16);
      },
      "a product of 2 x 2 x 2 on stream 0", "a memset on stream 1");
}

TEST_F(RaceCheckTest, AMissingEdgeOfARecording) {
  expectRace(
      [&](Queue other) -> Status {
        OPTRT_RETURN_IF_ERROR(device->beginRecording());
        OPTRT_RETURN_IF_ERROR(addTo(kCompute, memory.data(), 1));
        OPTRT_RETURN_IF_ERROR(doubleAll(other, memory.data()));
        OPTRT_ASSIGN_OR_RETURN(uint32_t recording, device->endRecording());
        return device->replay(recording);
      },
      "add on stream 0 of a graph", "double_it on stream 1 of a graph");
}

TEST_F(RaceCheckTest, WhatDoesNotWaitForARecording) {
  expectRace(
      [&](Queue other) -> Status {
        OPTRT_RETURN_IF_ERROR(device->beginRecording());
        OPTRT_RETURN_IF_ERROR(addTo(kCompute, memory.data(), 1));
        OPTRT_ASSIGN_OR_RETURN(uint32_t recording, device->endRecording());
        OPTRT_RETURN_IF_ERROR(device->replay(recording));
        return doubleAll(other, memory.data());
      },
      "add on stream 0 of a graph", "double_it on stream 1");
}

TEST_F(RaceCheckTest, EventsOrder) {
  expectNone([&](Queue other) -> Status {
    for (int i = 0; i != 3; ++i) {
      OPTRT_RETURN_IF_ERROR(addTo(kCompute, memory.data(), 1));
      OPTRT_RETURN_IF_ERROR(device->await(other, device->record(kCompute)));
      OPTRT_RETURN_IF_ERROR(doubleAll(other, memory.data()));
      OPTRT_RETURN_IF_ERROR(device->await(kCompute, device->record(other)));
    }
    return okStatus();
  });
}

TEST_F(RaceCheckTest, TheHostOrdersWhatItWaitsFor) {
  expectNone([&](Queue other) -> Status {
    OPTRT_RETURN_IF_ERROR(addTo(other, memory.data(), 1));
    OPTRT_RETURN_IF_ERROR(device->call(other, okStatus));
    return addTo(kCompute, memory.data(), 1);
  });
}

TEST_F(RaceCheckTest, WhatIsOnlyReadHasNoOrder) {
  expectNone([&](Queue other) -> Status {
    OPTRT_RETURN_IF_ERROR(device->copy(kCompute, {1, 4, 4, 4, 4}, memory.data(),
                                       memory.data() + 16));
    return device->copy(other, {1, 4, 4, 4, 4}, memory.data(),
                        memory.data() + 32);
  });
}

TEST_F(RaceCheckTest, WhatLiesBetweenRowsIsAnothers) {
  expectNone([&](Queue other) -> Status {
    OPTRT_RETURN_IF_ERROR(clearColumn(kCompute, 0));
    return clearColumn(other, 1);
  });
}

TEST_F(RaceCheckTest, RecordingsFollowEachOther) {
  expectNone([&](Queue other) -> Status {
    OPTRT_RETURN_IF_ERROR(device->beginRecording());
    OPTRT_RETURN_IF_ERROR(clearColumn(kCompute, 0));
    OPTRT_RETURN_IF_ERROR(clearColumn(other, 1));
    OPTRT_ASSIGN_OR_RETURN(uint32_t recording, device->endRecording());
    OPTRT_RETURN_IF_ERROR(device->replay(recording));
    OPTRT_RETURN_IF_ERROR(device->replay(recording));
    return addTo(kCompute, memory.data(), 1);
  });
}

} // namespace
