//===- HostWordsTest.cpp - Words of the host's memory ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

#include "HostWordKernel.h"

using namespace optrt;
using testing::HasSubstr;

namespace {

/// On a driver that writes words in the way `how`: $OPTIMUS_FAKE_GPU_WORDS.
class HostWordsTest : public FakeGpuTest {
protected:
  ~HostWordsTest() override { unsetenv("OPTIMUS_FAKE_GPU_WORDS"); }

  void choose(const char *how) {
    if (how)
      setenv("OPTIMUS_FAKE_GPU_WORDS", how, 1);
    auto allocated = device->allocateOnHost(64, "a test");
    ASSERT_TRUE(allocated.ok()) << allocated.status().message();
    host = *std::move(allocated);
  }
  uint32_t *word() { return reinterpret_cast<uint32_t *>(host.data()); }

  /// Launches of kernels by a word that is posted, then by three replays.
  int64_t launchesOfPosts() {
    EXPECT_TRUE(device->post(kCompute, word(), 0).ok());
    const int64_t before = optimus_fake_gpu_counts().launches;
    EXPECT_TRUE(device->post(kCompute, word(), 3).ok());
    EXPECT_TRUE(device->synchronize().ok());
    EXPECT_EQ(*word(), 3u);
    EXPECT_TRUE(device->beginRecording().ok());
    EXPECT_TRUE(device->post(kCompute, word(), 5).ok());
    StatusOr<uint32_t> recording = device->endRecording();
    EXPECT_TRUE(recording.ok()) << recording.status().message();
    for (int i = 0; i != 3 && recording.ok(); ++i) {
      *word() = 0;
      EXPECT_TRUE(device->replay(*recording).ok());
      EXPECT_TRUE(device->synchronize().ok());
      EXPECT_EQ(*word(), 5u);
    }
    return optimus_fake_gpu_counts().launches - before;
  }

  DeviceMemory host;
};

TEST_F(HostWordsTest, TheDriversCallWritesThemWhereItIsCaptured) {
  choose(nullptr);
  EXPECT_EQ(launchesOfPosts(), 0);
}

TEST_F(HostWordsTest, AKernelWritesThemWhereTheCallIsNotCaptured) {
  choose("kernel");
  // One was put on the queue, one recorded.
  EXPECT_EQ(launchesOfPosts(), 2);
}

TEST_F(HostWordsTest, ADriverThatWritesNoneIsRefused) {
  choose("none");
  const Status status = device->post(kCompute, word(), 1);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              HasSubstr("this GPU's driver writes no words of the host's "
                        "memory from a graph: by cuStreamWriteValue32, "));
  EXPECT_THAT(status.message(), HasSubstr("a word is written while a stream is "
                                          "captured"));
  EXPECT_THAT(status.message(),
              HasSubstr("by a kernel, expected 24301 in the word, found 0"));
}

/// CUDA's pages promise none.
TEST_F(HostWordsTest, AGraphsMemsetOfThemIsRefused) {
  choose(nullptr);
  ASSERT_TRUE(device->beginRecording().ok());
  expectFailure(device->clear(kCompute, word(), 4),
                "a memset of the host's memory in a graph");
  device->abandonRecording();
}

TEST(HostWordKernel, AssemblesForEveryGpu) {
  const std::string path = testing::TempDir() + "/host-word.ptx";
  std::ofstream(path) << cuda::kHostWordKernel;
  const std::string assembler = std::system("command -v ptxas >/dev/null") == 0
                                    ? "ptxas"
                                    : "/usr/local/cuda/bin/ptxas";
  if (std::system((assembler + " --version >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "there is no ptxas";
  for (const char *architecture : {"sm_80", "sm_90", "sm_100"})
    EXPECT_EQ(std::system(concat(assembler, " -arch=", architecture, " ", path,
                                 " -o /dev/null")
                              .c_str()),
              0)
        << architecture;
}

} // namespace
