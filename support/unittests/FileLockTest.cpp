//===- FileLockTest.cpp - One process at a time ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/FileLock.h"

#include "FolderTest.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace optimus_support;

namespace {

class FileLockTest : public FolderTest {
protected:
  /// A process that holds the lock until it is killed.
  pid_t holdInChild() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
      StatusOr<FileLock> lock = FileLock::acquire(at("lock"), "it");
      [[maybe_unused]] ssize_t said = write(ready[1], "x", 1);
      pause();
    }
    char byte;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  }
};

TEST_F(FileLockTest, IsRemovedWhenItIsReleased) {
  {
    StatusOr<FileLock> lock = FileLock::acquire(at("lock"), "it");
    ASSERT_TRUE(lock.ok()) << lock.status().message();
    EXPECT_EQ(names(), std::set<std::string>{"lock"});
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(FileLockTest, NamesItsHolder) {
  pid_t child = holdInChild();
  Status status = FileLock::acquire(at("lock"), "the checkpoint").status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  std::string begin =
      concat("the checkpoint is being written by process ", child, " on ");
  EXPECT_EQ(status.message().substr(0, begin.size()), begin);
  EXPECT_NE(status.message().find("OptimusSupportTests"), std::string::npos)
      << status.message();
  EXPECT_EQ(names(), std::set<std::string>{"lock"});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(FileLockTest, WaitsForItsHolder) {
  pid_t child = holdInChild();
  std::thread ends([child] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(child, SIGKILL);
  });
  StatusOr<FileLock> lock =
      FileLock::acquire(at("lock"), "it", std::chrono::seconds(60));
  EXPECT_TRUE(lock.ok()) << lock.status().message();
  ends.join();
  waitpid(child, nullptr, 0);
}

TEST_F(FileLockTest, DoesNotWaitForWhatNobodyHolds) {
  auto begin = std::chrono::steady_clock::now();
  Status status =
      FileLock::acquire(at("nowhere/lock"), "it", std::chrono::seconds(60))
          .status();
  EXPECT_FALSE(status.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(FileLockTest, TakesOverFromAKilledProcess) {
  pid_t child = holdInChild();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(names(), std::set<std::string>{"lock"});
  {
    StatusOr<FileLock> lock = FileLock::acquire(at("lock"), "it");
    ASSERT_TRUE(lock.ok()) << lock.status().message();
    EXPECT_NE(read(at("lock")).find(concat('\n', getpid(), '\n')),
              std::string::npos);
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(FileLockTest, TakesAnythingForNobodys) {
  put("lock", std::string("\0\xff garbage", 10));
  EXPECT_TRUE(FileLock::acquire(at("lock"), "it").ok());
}

TEST_F(FileLockTest, SaysWhereItCannotBeMade) {
  Status status = FileLock::acquire(at("none/lock"), "it").status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "it: cannot make " + at("none/lock") +
                                  ": No such file or directory");
}

TEST_F(FileLockTest, SaysWhatHasNoRoom) {
  const sighandler_t before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none{0, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  Status status = FileLock::acquire(at("lock"), "the folder x").status();
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.message(),
            "the folder x: cannot write '" + at("lock") + "': File too large");
  EXPECT_TRUE(names().empty());
}

TEST_F(FileLockTest, OneOfManyHasIt) {
  // Each adds one to a number, which is only right one at a time.
  put("number", "0");
  constexpr int kProcesses = 4, kRounds = 25;
  for (int p = 0; p != kProcesses; ++p)
    if (fork() == 0) {
      for (int i = 0; i != kRounds; ++i) {
        StatusOr<FileLock> lock = FileLock::acquire(at("lock"), "it");
        if (!lock.ok()) {
          --i;
          usleep(100);
          continue;
        }
        put("number", std::to_string(std::stoi(read(at("number"))) + 1));
      }
      _exit(0);
    }
  for (int p = 0; p != kProcesses; ++p)
    wait(nullptr);
  EXPECT_EQ(read(at("number")), std::to_string(kProcesses * kRounds));
}

} // namespace
