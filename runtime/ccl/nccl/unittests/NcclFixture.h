//===- NcclFixture.h - Ranks with a fake GPU each ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The back-end on the fake NCCL and the fake driver: ranks are threads, or the
// processes of the job that this one was started for.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_UNITTESTS_NCCLFIXTURE_H
#define OPTIMUS_RUNTIME_CCL_NCCL_UNITTESTS_NCCLFIXTURE_H

#include "CudaDevice.h"
#include "FakeGpu.h"
#include "ccl/unittests/CollectiveWorlds.h"
#include "optimus-runtime/QueuedCollectives.h"

#include "optimus-support/BFloat16.h"
#include "optimus-support/Float16.h"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace optrt {

inline optrt_collective_desc describe(int32_t kind, int64_t count,
                                      int32_t type = OPTRT_F32) {
  return {kind, OPTRT_SUM, 0, /*root=*/1, 1, count, count, count, type};
}

/// Elements as they lie in memory.
inline std::string pack(const std::vector<float> &values, int32_t type) {
  std::string bytes;
  auto append = [&](auto value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
  };
  for (float value : values) {
    if (type == OPTRT_F32)
      append(value);
    else if (type == OPTRT_BF16)
      append(optimus_support::toBFloat16(value));
    else
      append(optimus_support::toFloat16(value));
  }
  return bytes;
}

/// A rank of a test, on its own thread.
struct TestRank {
  int index = 0;
  std::unique_ptr<cuda::CudaDevice> device;
  std::unique_ptr<QueuedCollectives> collectives;
  Queue axis;

  StatusOr<DeviceMemory> upload(const std::string &bytes) {
    OPTRT_ASSIGN_OR_RETURN(DeviceMemory memory,
                           device->allocate(int64_t(bytes.size()), "a test"));
    OPTRT_RETURN_IF_ERROR(device->write(kCompute, memory.data(), bytes.data(),
                                        int64_t(bytes.size())));
    OPTRT_RETURN_IF_ERROR(device->synchronize());
    return memory;
  }
  StatusOr<std::string> download(const DeviceMemory &memory) {
    std::string bytes(memory.size(), 0);
    OPTRT_RETURN_IF_ERROR(device->read(kCompute, bytes.data(), memory.data(),
                                       int64_t(bytes.size())));
    OPTRT_RETURN_IF_ERROR(device->synchronize());
    return bytes;
  }
  /// Puts some on the axis's queue, to start together, before what is computed
  /// next. Where it fails, everything under way ends before this returns: the
  /// caller gives back the memory that it uses.
  Status put(std::span<const QueuedCollective> together) {
    Status status = order(together);
    if (!status.ok())
      (void)device->synchronize();
    return status;
  }
  Status put(const optrt_collective_desc &desc, const void *src, void *dst) {
    const QueuedCollective one{0, &desc, src, dst};
    return put({&one, 1});
  }
  /// As Rank::endCall().
  Status end() {
    Status status = device->synchronize(),
           communicated = collectives->endCall();
    return communicated.ok() ? status : communicated;
  }

private:
  Status order(std::span<const QueuedCollective> together) {
    OPTRT_RETURN_IF_ERROR(device->await(axis, device->record(kCompute)));
    OPTRT_RETURN_IF_ERROR(collectives->enqueue(axis, together));
    return device->await(kCompute, device->record(axis));
  }
};

/// Where members of communicators meet while it lives: those that are ended
/// leave something.
class MeetingFolder {
public:
  MeetingFolder() {
    const char *given = std::getenv("TMPDIR");
    former = given ? given : "";
    path = testing::TempDir() + "/optimus-nccl-XXXXXX";
    EXPECT_TRUE(mkdtemp(path.data()));
    setenv("TMPDIR", path.c_str(), 1);
  }
  ~MeetingFolder() {
    if (former.empty())
      unsetenv("TMPDIR");
    else
      setenv("TMPDIR", former.c_str(), 1);
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  MeetingFolder(const MeetingFolder &) = delete;
  MeetingFolder &operator=(const MeetingFolder &) = delete;

private:
  std::string path, former;
};

class NcclTest : public testing::Test {
public:
  static constexpr int kRanks = 3;

protected:
  explicit NcclTest(int numRanks = kRanks) : numRanks(numRanks) {
    // Processes of a job share one that whoever started them removes.
    if (!std::getenv("OPTIMUS_RANK"))
      folder.emplace();
    setenv("OPTIMUS_FAKE_GPU_COUNT", "4", 1);
    setenv("OPTIMUS_CUDA_DRIVER_LIBRARY", OPTIMUS_FAKE_CUDA, 1);
    setenv("OPTIMUS_NCCL_LIBRARY", OPTIMUS_FAKE_NCCL, 1);
    for (const char *variable : {"ABSENT", "HANG", "FAIL", "STUCK"})
      unsetenv(concat("OPTIMUS_FAKE_NCCL_", variable).c_str());
    optimus_fake_gpu_reset(0);
  }

  /// Runs `body` on all ranks at the same time, and returns the first failure
  /// among those of this process.
  Status run(const std::function<Status(TestRank &)> &body,
             double timeoutSeconds = 60) {
    World world{createLocalControl(), createNcclCollectives()};
    // Processes meet once.
    static std::unique_ptr<ControlPlane> job =
        launcher().isAlone() ? nullptr : createTcpOrDie().control;
    ControlPlane &control = job ? *job : *world.control;
    const optimus_support::Mesh mesh({{"ring", numRanks}});
    OPTRT_RETURN_IF_ERROR(control.layOut(mesh));
    OPTRT_RETURN_IF_ERROR(
        world.collectives->createGroups(control, mesh, {{{0}}}));
    std::mutex mutex;
    Status first;
    auto work = [&](int index) {
      TestRank rank;
      rank.index = index;
      auto all = [&]() -> Status {
        OPTRT_ASSIGN_OR_RETURN(rank.device, cuda::CudaDevice::create(index));
        rank.axis = rank.device->queue("axis 0");
        OPTRT_ASSIGN_OR_RETURN(
            rank.collectives,
            world.collectives->connect(index, *rank.device, timeoutSeconds));
        return body(rank);
      };
      if (Status status = all(); !status.ok()) {
        {
          std::lock_guard lock(mutex);
          if (first.ok())
            first = status;
        }
        world.collectives->abort(status);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i != control.numLocalRanks(); ++i)
      threads.emplace_back(work, control.firstRank() + i);
    for (std::thread &thread : threads)
      thread.join();
    return first;
  }

  const int numRanks;

private:
  std::optional<MeetingFolder> folder;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_NCCL_UNITTESTS_NCCLFIXTURE_H
