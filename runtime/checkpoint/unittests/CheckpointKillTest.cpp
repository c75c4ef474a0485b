//===- CheckpointKillTest.cpp - Writers that are killed -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"

#include <chrono>
#include <csignal>
#include <random>
#include <sys/wait.h>
#include <thread>

using namespace optrt;

namespace {
class Kill : public CheckpointTest, public testing::WithParamInterface<bool> {
protected:
  void SetUp() override {
    root = testing::TempDir() + "optimus-kill-" +
           (GetParam() ? "exchange-" : "rename-") + std::to_string(getpid());
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    dir = root + "/run";
  }
};
} // namespace

// Children save one step after another until they are killed, at times spread
// over several saves. Whatever they were doing, a reader must find a whole
// checkpoint, of a step no older than the last one that was told complete.
TEST_P(Kill, LeavesAWholeCheckpointAtAnyTime) {
  CheckpointWriterOptions options;
  options.useExchange = GetParam();
  ASSERT_TRUE(save(dir, 1, options).ok());
  std::mt19937 random(GetParam() ? 1 : 2);
  int leftovers = 0;
  int64_t step = 1;
  for (int round = 0; round < 60; ++round) {
    int pipeEnds[2];
    ASSERT_EQ(pipe(pipeEnds), 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int64_t next = step + 1;; ++next) {
        // Sharded and not, so that the number of files changes.
        options.shardLimitBytes = next % 2 ? 400 : 5'000'000'000;
        if (!save(dir, next, options).ok())
          _exit(1);
        if (write(pipeEnds[1], &next, sizeof(next)) != sizeof(next))
          _exit(2);
      }
    }
    close(pipeEnds[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a save failed";

    int64_t completed = step, told;
    while (read(pipeEnds[0], &told, sizeof(told)) == sizeof(told))
      completed = told;
    close(pipeEnds[0]);
    leftovers += list(root).size() > 1 || list(root)[0] != "run";

    auto checkpoint = Checkpoint::open(dir);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    expectWhole(**checkpoint);
    step = (*checkpoint)->state().step;
    ASSERT_GE(step, completed);
    ASSERT_LE(step, completed + 1);
  }
  // The kills did hit writers at work, and the next one cleans up after them.
  EXPECT_GT(leftovers, 5);
  ASSERT_TRUE(save(dir, step + 1, options).ok());
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, Kill, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "Exchange" : "TwoRenames";
                         });
