//===- CheckpointDestinationTest.cpp - The folder that is replaced --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

using namespace optrt;
using namespace optimus_support;

namespace {
class Destination : public CheckpointTest {};
} // namespace

TEST_F(Destination, MayBeNewDeepEmptyOrLinked) {
  ASSERT_TRUE(save(root + "/a/b/c/", 1).ok());
  EXPECT_TRUE(Checkpoint::open(root + "/a/b/c/").ok());
  std::filesystem::create_directory(root + "/empty");
  ASSERT_TRUE(save(root + "/empty", 2).ok());
  EXPECT_TRUE(Checkpoint::open(root + "/empty").ok());
  std::filesystem::create_directory_symlink(root + "/empty", root + "/link");
  ASSERT_TRUE(save(root + "/link", 3).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(root + "/link"));
  auto checkpoint = Checkpoint::open(root + "/empty");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 3);
}

TEST_F(Destination, IsNotReplacedUnlessItIsACheckpoint) {
  auto expectRefused = [&](const std::string &path,
                           const std::string &message) {
    auto writer = CheckpointWriter::create(path);
    ASSERT_FALSE(writer.ok());
    EXPECT_EQ(writer.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(writer.status().message().find(message), std::string::npos)
        << writer.status().message();
  };
  writeFile(root + "/file", "text");
  expectRefused(root + "/file", "exists and is not a folder");
  expectRefused(root + "/file/run", root + "/file");
  expectRefused("", "does not name a folder");
  expectRefused("/", "does not name a folder");

  ASSERT_TRUE(save(dir, 1).ok());
  writeFile(dir + "/notes.md", "mine");
  expectRefused(dir, "it contains notes.md");
  std::filesystem::create_directory(root + "/downloaded");
  writeFile(root + "/downloaded/model.safetensors", "weights");
  expectRefused(root + "/downloaded", "no state.json");
  // All is still there.
  EXPECT_EQ(readFile(dir + "/notes.md"), "mine");
  EXPECT_EQ(readFile(root + "/downloaded/model.safetensors"), "weights");
  EXPECT_EQ(readFile(root + "/file"), "text");
  EXPECT_TRUE(Checkpoint::open(dir).ok());
}

TEST_F(Destination, KeepsItsPermissions) {
  using std::filesystem::perms;
  ASSERT_TRUE(save(dir, 1).ok());
  for (perms mode : {perms::owner_all, perms::owner_all | perms::group_all}) {
    std::filesystem::permissions(dir, mode);
    ASSERT_TRUE(save(dir, 2).ok());
    EXPECT_EQ(std::filesystem::status(dir).permissions(), mode);
  }
}

TEST_F(Destination, IsCheckedAgainWhenItIsReplaced) {
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE((*writer)->begin().ok());
  ASSERT_TRUE(writePieces(**writer, piecesOf(**writer), valuesOf(1)).ok());
  std::filesystem::create_directory(dir);
  writeFile(dir + "/notes.md", "mine");
  Status committed = (*writer)->commit(stateOf(1));
  EXPECT_EQ(committed.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(readFile(dir + "/notes.md"), "mine");
}

TEST_F(Destination, LeftoversOfKilledWritersAreRemoved) {
  ASSERT_TRUE(save(dir, 1).ok());
  std::string dead = root + "/.run.optimus-tmp-1-0";
  std::filesystem::create_directory(dead);
  writeFile(dead + "/model.safetensors", "half");
  // Another run's, and a user's file of a similar name, are none of ours.
  std::filesystem::create_directory(root + "/.other.optimus-tmp-1-0");
  ASSERT_TRUE(save(dir, 2).ok());
  EXPECT_EQ(list(root),
            (std::vector<std::string>{".other.optimus-tmp-1-0", "run"}));
}

TEST_F(Destination, AnotherWritersFolderIsLeftAlone) {
  auto writer = declareAll(dir);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  ASSERT_TRUE((*writer)->begin().ok());
  ASSERT_TRUE(writePieces(**writer, piecesOf(**writer), valuesOf(2)).ok());
  ASSERT_TRUE(save(dir, 1).ok());
  ASSERT_TRUE((*writer)->commit(stateOf(2)).ok());
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 2);
  expectWhole(**checkpoint);
}

// A writer killed between the two renames of a file system without exchange.
TEST_F(Destination, ReadersAndWritersFindTheOldCheckpoint) {
  ASSERT_TRUE(save(dir, 1).ok());
  std::filesystem::rename(dir, root + "/.run.optimus-old");
  auto checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
  expectWhole(**checkpoint);
  {
    // A writer that gives up still leaves a checkpoint.
    auto writer = CheckpointWriter::create(dir);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
  }
  checkpoint = Checkpoint::open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ((*checkpoint)->state().step, 1);
  // Killed after the second rename: the old one goes.
  std::filesystem::copy(dir, root + "/.run.optimus-old");
  ASSERT_TRUE(save(dir, 2).ok());
  EXPECT_EQ(list(root), std::vector<std::string>{"run"});
}

// Somebody evaluates the checkpoint of a run that goes on.
TEST_F(Destination, ReadersFindOneCheckpointWhileWritersReplaceIt) {
  for (bool useExchange : {true, false}) {
    CheckpointWriterOptions options;
    options.useExchange = useExchange;
    ASSERT_TRUE(save(dir, 1, options).ok());
    std::atomic<bool> stop = false;
    std::thread writer([&] {
      for (int64_t step = 2; !stop; ++step) {
        // Sharded and not, so that files come and go.
        options.shardLimitBytes = step % 4 < 2 ? 400 : 5'000'000'000;
        Status saved = save(dir, step, options);
        EXPECT_TRUE(saved.ok()) << saved.message();
      }
    });
    int64_t last = 0;
    std::set<int64_t> steps;
    // However slow the disk is to take what the writer syncs.
    for (int i = 0; i < 2000 || steps.size() <= 5; ++i) {
      auto checkpoint = Checkpoint::open(dir);
      EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
      if (!checkpoint.ok())
        break;
      EXPECT_GE((*checkpoint)->state().step, last);
      last = (*checkpoint)->state().step;
      steps.insert(last);
      expectWhole(**checkpoint);
      EXPECT_TRUE((*checkpoint)->checkUnchanged().ok());
    }
    stop = true;
    writer.join();
  }
}
