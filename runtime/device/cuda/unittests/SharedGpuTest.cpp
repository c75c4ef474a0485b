//===- SharedGpuTest.cpp - Two ranks that share a GPU ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "ccl/local/Watchdog.h"
#include "optimus-runtime/QueuedCollectives.h"
#include "optimus-runtime/World.h"

#include <atomic>
#include <thread>

using namespace optrt;
using optrt::cuda::CudaDevice;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

namespace {

constexpr int64_t kCount = 16;

class SharedGpuTest : public FakeGpuTest {
protected:
  SharedGpuTest() {
    EXPECT_TRUE(world.layOut(mesh).ok());
    world.control->nameCommands(nameOf);
  }

  static std::string nameOf(int, CommandId command) {
    return concat("h.", command.number, ".attn");
  }

  /// A rank, on its own thread: what it computes on, and a buffer of its own.
  struct TestRank {
    ~TestRank() {
      if (device)
        device->discardRecordings();
    }
    std::unique_ptr<CudaDevice> device;
    std::unique_ptr<QueuedCollectives> collectives;
    DeviceMemory buffer;
    Queue axis;
  };
  using Body = std::function<Status(TestRank &, int)>;

  /// Does the same on both ranks. What each of them said.
  std::vector<Status> run(const Body &body) {
    std::vector<Status> outcomes(2);
    auto work = [&](int number) {
      TestRank rank;
      outcomes[number] = makeAndDo(rank, number, body);
      if (!outcomes[number].ok())
        world.collectives->abort(outcomes[number]);
      // As ranks of a session, they end together.
      ++ended;
      while (ended != 2)
        std::this_thread::yield();
    };
    ended = 0;
    std::thread other(work, 1);
    work(0);
    other.join();
    return outcomes;
  }
  Status makeAndDo(TestRank &rank, int number, const Body &body) {
    OPTRT_ASSIGN_OR_RETURN(rank.device, CudaDevice::create());
    rank.axis = rank.device->queue("axis 0");
    Workload workload;
    workload.kernels = {&add, &doubleIt, &sumOfTwo};
    workload.images = {&image, 1};
    OPTRT_RETURN_IF_ERROR(rank.device->prepare(workload));
    OPTRT_ASSIGN_OR_RETURN(rank.buffer,
                           rank.device->allocate(kCount * 4, "a test"));
    OPTRT_ASSIGN_OR_RETURN(rank.collectives,
                           world.collectives->connect(number, *rank.device, 0));
    return body(rank, number);
  }

  Status addNumber(TestRank &rank, int64_t number) {
    void *args[] = {rank.buffer.data(), &number};
    return rank.device->launch(kCompute, {"add", kCount, 1, 1, 1}, add, args);
  }
  /// buffer += rank + 1; the sum of both buffers; doubled.
  Status step(TestRank &rank, int number) {
    OPTRT_RETURN_IF_ERROR(addNumber(rank, number + 1));
    OPTRT_RETURN_IF_ERROR(reduce(rank, desc, 3));
    void *args[] = {rank.buffer.data()};
    return rank.device->launch(kCompute, {"double_it", kCount, 1, 1, 0},
                               doubleIt, args);
  }
  Status reduce(TestRank &rank, const optrt_collective_desc &one,
                uint32_t command) {
    CudaDevice &device = *rank.device;
    OPTRT_RETURN_IF_ERROR(device.await(rank.axis, device.record(kCompute)));
    const QueuedCollective start{command, &one, rank.buffer.data(),
                                 rank.buffer.data(), &sumOfTwo};
    OPTRT_RETURN_IF_ERROR(rank.collectives->enqueue(rank.axis, {&start, 1}));
    return device.await(kCompute, device.record(rank.axis));
  }
  /// As a BoundProgram does it, which has run the step before or not.
  Status begin(TestRank &rank, uint32_t command = 3) {
    planned = {{command, &desc}};
    rank.collectives->beginCall(0, planned);
    return rank.collectives->agreeToRecord(true).status();
  }
  Status end(TestRank &rank) {
    Status status = rank.device->synchronize(),
           communicated = rank.collectives->endCall();
    return communicated.ok() ? status : communicated;
  }

  const optimus_kernel sumOfTwo{"sum_of_two", nullptr, 0, "sum_of_two", 32, 32};
  const optrt_collective_desc desc{
      OPTRT_ALL_REDUCE, OPTRT_SUM, 0, 0, 1, kCount, kCount, kCount, OPTRT_F32};
  static thread_local std::vector<PlannedCollective> planned;
  const optimus_support::Mesh mesh{{{"row", 2}}};
  World world = createLocalWorld();
  std::atomic<int> ended = 0;
};
thread_local std::vector<PlannedCollective> SharedGpuTest::planned;

/// Both fail: at least one says why, and another may have been ended by that.
void expectOneSays(const std::vector<Status> &outcomes, const char *message) {
  for (const Status &outcome : outcomes)
    EXPECT_THAT(outcome.message(),
                AnyOf(HasSubstr(message),
                      HasSubstr("was ended, since another rank has failed")));
  EXPECT_THAT(outcomes[0].message() + outcomes[1].message(),
              HasSubstr(message));
}

TEST_F(SharedGpuTest, EagerAndRecordedStepsAddWhatBothHave) {
  for (uint64_t seed = 0; seed != 8; ++seed) {
    start(seed);
    const int64_t before = optimus_fake_gpu_counts().graphLaunches;
    auto outcomes = run([&](TestRank &rank, int number) -> Status {
      Recorder &recorder = rank.collectives->recorder(*rank.device);
      OPTRT_RETURN_IF_ERROR(begin(rank));
      OPTRT_RETURN_IF_ERROR(step(rank, number));
      OPTRT_RETURN_IF_ERROR(end(rank));
      OPTRT_RETURN_IF_ERROR(begin(rank));
      OPTRT_RETURN_IF_ERROR(recorder.beginRecording());
      OPTRT_RETURN_IF_ERROR(step(rank, number));
      OPTRT_ASSIGN_OR_RETURN(const uint32_t recording, recorder.endRecording());
      for (int replay = 0; replay != 2; ++replay) {
        if (replay != 0)
          OPTRT_RETURN_IF_ERROR(begin(rank));
        OPTRT_RETURN_IF_ERROR(recorder.replay(recording));
        OPTRT_RETURN_IF_ERROR(end(rank));
      }
      // 6, then twice the sum of both with 3 more.
      std::vector<float> values(kCount);
      OPTRT_RETURN_IF_ERROR(rank.device->read(kCompute, values.data(),
                                              rank.buffer.data(), kCount * 4));
      OPTRT_RETURN_IF_ERROR(rank.device->synchronize());
      EXPECT_THAT(values, Each(2 * (2 * (2 * 6 + 3) * 2 + 3)));
      return okStatus();
    });
    for (const Status &outcome : outcomes)
      EXPECT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_EQ(optimus_fake_gpu_counts().graphLaunches - before, 2)
        << "one graph is that of both ranks";
  }
}

TEST_F(SharedGpuTest, AnEventThatIsMissingBetweenRanksIsFound) {
  const SeededBug bug("missing event between ranks");
  auto outcomes = run([&](TestRank &rank, int number) -> Status {
    OPTRT_RETURN_IF_ERROR(begin(rank));
    OPTRT_RETURN_IF_ERROR(step(rank, number));
    return end(rank);
  });
  EXPECT_THAT(outcomes[0].message() + outcomes[1].message(),
              HasSubstr("nothing orders the two: an event is missing"));
}

TEST_F(SharedGpuTest, AnotherOrderIsToldWithBothCommands) {
  auto outcomes = run([&](TestRank &rank, int number) -> Status {
    const uint32_t command = number == 0 ? 3 : 7;
    OPTRT_RETURN_IF_ERROR(begin(rank, command));
    return reduce(rank, desc, command);
  });
  expectOneSays(outcomes, "ranks disagree: rank 0 runs h.3.attn, all_reduce "
                          "from or to 0 of 1x16 of f32 where rank 1 runs "
                          "h.7.attn, all_reduce");
}

TEST_F(SharedGpuTest, WhatCannotBeAddedIsRefused) {
  auto outcomes = run([&](TestRank &rank, int) -> Status {
    OPTRT_RETURN_IF_ERROR(begin(rank));
    const QueuedCollective start{3, &desc, rank.buffer.data(),
                                 rank.buffer.data()};
    return rank.collectives->enqueue(rank.axis, {&start, 1});
  });
  expectOneSays(outcomes, "h.3.attn, collective 1 on mesh axis row: the "
                          "library has no kernel for the reductions");
}

/// Before it records, and while it does.
TEST_F(SharedGpuTest, TheOthersOfARankThatFailsAreEnded) {
  for (int failing : {0, 1})
    for (bool hasBegun : {false, true}) {
      start(0);
      ASSERT_TRUE(world.layOut(mesh).ok());
      auto outcomes = run([&](TestRank &rank, int number) -> Status {
        Recorder &recorder = rank.collectives->recorder(*rank.device);
        auto record = [&]() -> Status {
          if (!hasBegun && number == failing)
            return internal("fails first");
          OPTRT_RETURN_IF_ERROR(begin(rank));
          OPTRT_RETURN_IF_ERROR(recorder.beginRecording());
          Status status =
              number == failing ? internal("fails first") : step(rank, number);
          if (!status.ok()) {
            recorder.abandonRecording();
            return status;
          }
          return recorder.endRecording().status();
        };
        Status status = record();
        // No stream is captured any more.
        EXPECT_TRUE(number != 0 || rank.device->synchronize().ok());
        return status;
      });
      EXPECT_EQ(outcomes[failing].message(), "fails first");
      EXPECT_THAT(outcomes[1 - failing].message(),
                  HasSubstr("was ended, since another rank has failed"));
    }
}

/// By the other, which waits for it before a call, in a collective, or on the
/// GPU.
TEST_F(SharedGpuTest, ARankThatIsLateIsNamed) {
  enum Place { BeforeACall, InACollective, OnTheGpu };
  for (Place place : {BeforeACall, InACollective, OnTheGpu}) {
    start(0);
    ASSERT_TRUE(world.layOut(mesh).ok());
    std::string said;
    std::atomic<bool> isSaid = false;
    // The control plane's would end the process.
    Watchdog watchdog(
        {&world.control->activity(0), &world.control->activity(1)}, mesh,
        nameOf, /*timeoutSeconds=*/0.5, [&](const Status &status) {
          said = status.message();
          world.collectives->abort(status);
          isSaid = true;
        });
    ASSERT_TRUE(watchdog.start().ok());
    auto outcomes = run([&](TestRank &rank, int number) -> Status {
      const bool isLate = number == 1;
      if (place != BeforeACall || !isLate)
        OPTRT_RETURN_IF_ERROR(begin(rank));
      while (isLate && place != OnTheGpu && !isSaid)
        std::this_thread::yield();
      if (isLate && place == OnTheGpu)
        optimus_fake_gpu_put(
            static_cast<cuda::Stream>(rank.device->nativeQueue(kCompute)),
            "a kernel without end", [] { return cuda::kSuccess; },
            [&] { return isSaid.load(); });
      OPTRT_RETURN_IF_ERROR(step(rank, number));
      return end(rank);
    });
    EXPECT_THAT(said, HasSubstr("rank 1 stalled before its first command: rank "
                                "0 has waited "));
    EXPECT_THAT(said, HasSubstr(" for h.3.attn, collective 1 on mesh axis row, "
                                "which it has not started"));
    for (const Status &outcome : outcomes)
      EXPECT_FALSE(outcome.ok());
  }
}

} // namespace
