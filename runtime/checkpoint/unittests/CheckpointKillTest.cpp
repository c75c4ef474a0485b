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
#include <span>
#include <sys/wait.h>
#include <thread>

using namespace optrt;

namespace {
/// How a checkpoint is put in place, and where: memory is written otherwise.
enum Way { Exchange, TwoRenames, ExchangeInMemory };

const char *nameOf(Way way) {
  return way == Exchange     ? "Exchange"
         : way == TwoRenames ? "TwoRenames"
                             : "ExchangeInMemory";
}

class Kill : public CheckpointTest, public testing::WithParamInterface<Way> {
protected:
  void SetUp() override {
    const std::string memory = "/dev/shm/";
    if (GetParam() == ExchangeInMemory && !std::filesystem::exists(memory))
      GTEST_SKIP() << "this machine has no " << memory;
    root = (GetParam() == ExchangeInMemory ? memory : testing::TempDir()) +
           concat("optimus-kill-", nameOf(GetParam()), "-", getpid());
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    dir = root + "/run";
  }

  /// After a kill: a whole checkpoint is there, of `completed` or the next step.
  void expectWholeSince(int64_t completed) {
    leftovers += list(root).size() > 1 || list(root)[0] != "run";
    auto checkpoint = Checkpoint::open(dir);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    expectWhole(**checkpoint);
    step = (*checkpoint)->state().step;
    ASSERT_GE(step, completed);
    ASSERT_LE(step, completed + 1);
  }

  /// The kills did hit writers at work, and the next one cleans up after them.
  void expectCleanedUp(const CheckpointWriterOptions &options) {
    EXPECT_GT(leftovers, 5);
    ASSERT_TRUE(save(dir, step + 1, options).ok());
    EXPECT_EQ(list(root), std::vector<std::string>{"run"});
  }

  int leftovers = 0; ///< kills with files of a writer left behind
  int64_t step = 1;  ///< the last whole checkpoint's

  /// What the first process of a job tells the others, and they tell it.
  struct Begun {
    char folder[64];
    int64_t step;
  };
  struct Written {
    size_t piece;
    uint64_t checksum;
  };
  static bool send(int pipe, const auto &message) {
    return write(pipe, &message, sizeof(message)) == sizeof(message);
  }
  static bool receive(int pipe, auto &message) {
    return read(pipe, &message, sizeof(message)) == sizeof(message);
  }

  /// Starts a job of three processes that save one step after another together;
  /// it tells each that is complete, or 0 for a failure.
  std::vector<pid_t> startJob(const CheckpointWriterOptions &options,
                              int64_t step, int tell) {
    constexpr size_t kSize = 3;
    int begun[kSize][2], written[2];
    EXPECT_EQ(pipe(written), 0);
    for (auto &ends : begun)
      EXPECT_EQ(pipe(ends), 0);
    std::vector<pid_t> members;
    for (size_t process = 0; process != kSize; ++process) {
      members.push_back(fork());
      if (members.back() != 0)
        continue;
      for (int64_t next = step + 1;; ++next)
        if (process > 0 ? !joinSave(options, begun[process][0], process, kSize,
                                    written[1])
                        : !leadSave(options, next, begun, written[0]) ||
                              !send(tell, next)) {
          send(tell, int64_t(0));
          _exit(1);
        }
    }
    for (auto &ends : begun)
      close(ends[0]), close(ends[1]);
    close(written[0]), close(written[1]);
    return members;
  }

  bool leadSave(const CheckpointWriterOptions &options, int64_t step,
                std::span<int[2]> begun, int written) {
    auto writer = declareAll(dir, options);
    if (!writer.ok() || !(*writer)->begin().ok())
      return false;
    Begun message{{}, step};
    (*writer)->folder().copy(message.folder, sizeof(message.folder));
    for (size_t i = 1; i != begun.size(); ++i)
      if (!send(begun[i][1], message))
        return false;
    const std::vector<size_t> own = piecesOf(**writer, 0, begun.size());
    if (!writePieces(**writer, own, valuesOf(step), 7).ok())
      return false;
    for (size_t i = own.size(); i != (*writer)->pieces().size(); ++i) {
      Written other;
      if (!receive(written, other))
        return false;
      (*writer)->setChecksum(other.piece, other.checksum);
    }
    return (*writer)->commit(stateOf(step)).ok();
  }

  bool joinSave(const CheckpointWriterOptions &options, int begun,
                size_t process, size_t size, int written) {
    Begun message;
    CheckpointWriter writer(options);
    if (!receive(begun, message) || !declareAll(writer).ok() ||
        !writer.layOut().ok() || !writer.join(dir, message.folder))
      return false;
    const std::vector<size_t> own = piecesOf(writer, process, size);
    if (!writePieces(writer, own, valuesOf(message.step), 7).ok() ||
        !writer.sync().ok())
      return false;
    for (size_t piece : own)
      if (!send(written, Written{piece, writer.checksum(piece)}))
        return false;
    return true;
  }
};
} // namespace

// Children save one step after another until they are killed, at times spread
// over several saves. Whatever they were doing, a reader must find a whole
// checkpoint, of a step no older than the last one that was told complete.
TEST_P(Kill, LeavesAWholeCheckpointAtAnyTime) {
  CheckpointWriterOptions options;
  options.useExchange = GetParam() != TwoRenames;
  ASSERT_TRUE(save(dir, 1, options).ok());
  std::mt19937 random(1 + GetParam());
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
    ASSERT_NO_FATAL_FAILURE(expectWholeSince(completed));
  }
  expectCleanedUp(options);
}

// The same with several processes that write pieces of one checkpoint: one of
// them is killed, whichever, and then the others.
TEST_P(Kill, OfAnyOfSeveralWritersLeavesAWholeCheckpoint) {
  CheckpointWriterOptions options;
  options.useExchange = GetParam() != TwoRenames;
  options.pieceBytes = 64;
  ASSERT_TRUE(save(dir, 1, options).ok());
  std::mt19937 random(4 + GetParam());
  for (int round = 0; round < 45; ++round) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    std::vector<pid_t> members = startJob(options, step, told[1]);
    close(told[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    kill(members[round % members.size()], SIGKILL);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    for (pid_t member : members)
      kill(member, SIGKILL);
    for (pid_t member : members)
      ASSERT_EQ(waitpid(member, nullptr, 0), member);

    int64_t completed = step, next;
    while (read(told[0], &next, sizeof(next)) == sizeof(next)) {
      ASSERT_GT(next, 0) << "a save failed";
      completed = next;
    }
    close(told[0]);
    ASSERT_NO_FATAL_FAILURE(expectWholeSince(completed));
  }
  expectCleanedUp(options);
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, Kill,
                         testing::Values(Exchange, TwoRenames,
                                         ExchangeInMemory),
                         [](const auto &info) { return nameOf(info.param); });
