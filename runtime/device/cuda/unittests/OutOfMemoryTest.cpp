//===- OutOfMemoryTest.cpp - What is said where memory runs out -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "Nvml.h"

#include <thread>
#include <vector>

using namespace optrt;
using testing::HasSubstr;

namespace {

class OutOfMemoryTest : public FakeGpuTest {
protected:
  OutOfMemoryTest() { setenv("OPTIMUS_NVML_LIBRARY", OPTIMUS_FAKE_NVML, 1); }
  ~OutOfMemoryTest() override {
    unsetenv("OPTIMUS_NVML_LIBRARY");
    unsetenv("OPTIMUS_FAKE_GPU_PROCESSES");
  }

  std::string message() {
    auto memory = device->allocate(int64_t(1) << 40, "the arena of a rank");
    EXPECT_EQ(memory.status().code(), StatusCode::Unavailable);
    return memory.status().message();
  }
};

TEST_F(OutOfMemoryTest, TellsWhatIsMissingAndWhatIsPlanned) {
  device->plan("a rank needs 1.5 TiB: parameters 512 GiB, arena 1 TiB");
  EXPECT_THAT(
      message(),
      testing::MatchesRegex(
          "cannot allocate 1099511627776 bytes for the arena of a rank "
          "on Optimus's fake GPU, where [0-9]+ of 1073741824 bytes are free: "
          "CUDA_ERROR_OUT_OF_MEMORY \\(out of memory\\); a rank needs 1.5 TiB: "
          "parameters 512 GiB, arena 1 TiB, and 32 MiB where it multiplies "
          "matrices; code, libraries and recorded steps, for which 1 GiB are "
          "planned, have taken 0 B; NVML knows of no process .*; end what else "
          "uses the GPU, "
          "or compile the model with a smaller --batch, .*"));
}

TEST_F(OutOfMemoryTest, TellsWhoHoldsTheRest) {
  setenv("OPTIMUS_FAKE_GPU_PROCESSES",
         "0 optimus 8192 7 - - 4711 /usr/bin/python3 1073741824", 1);
  EXPECT_THAT(message(),
              HasSubstr("of the GPU's memory python3 (process 4711) holds 1 "
                        "GiB, this process holds 8192 B, process 7 holds what "
                        "NVML does not know; end what else"));
}

TEST_F(OutOfMemoryTest, ManyProcessesAreCounted) {
  std::string all;
  for (int process = 1; process != 12; ++process)
    all += concat(process, " p 4096 ");
  setenv("OPTIMUS_FAKE_GPU_PROCESSES", all.c_str(), 1);
  EXPECT_THAT(message(), HasSubstr("p (process 8) holds 4096 B, and 3 others "
                                   "hold less"));
}

TEST_F(OutOfMemoryTest, NvmlMayBeAbsent) {
  setenv("OPTIMUS_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
  EXPECT_THAT(message(), HasSubstr("who holds the rest is not known: cannot "
                                   "open NVML: /nowhere/libnvidia-ml.so.1"));
}

TEST_F(OutOfMemoryTest, NvmlMayKnowNoSuchGpu) {
  auto holders = cuda::findMemoryHolders("0000:ff:00.0");
  EXPECT_EQ(holders.status().message(),
            "nvmlDeviceGetHandleByPciBusId_v2 ended with 6");
}

// Ranks that are threads open and close NVML each for itself.
TEST_F(OutOfMemoryTest, RanksMayAskAtOnce) {
  setenv("OPTIMUS_FAKE_GPU_PROCESSES", "4711 python3 4096", 1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank != 4; ++rank)
    ranks.emplace_back([] {
      for (int look = 0; look != 50; ++look) {
        auto holders = cuda::findMemoryHolders("0000:01:00.0");
        ASSERT_TRUE(holders.ok()) << holders.status().message();
      }
    });
  for (std::thread &rank : ranks)
    rank.join();
}

} // namespace
