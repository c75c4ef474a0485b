//===- ScratchFolderTest.cpp - Temporary files of one process -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ScratchFolder.h"

#include "FolderTest.h"

#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace optimus_support;

namespace {

class ScratchFolderTest : public FolderTest {
protected:
  void SetUp() override {
    FolderTest::SetUp();
    setenv("TMPDIR", folder.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    FolderTest::TearDown();
  }
};

TEST_F(ScratchFolderTest, IsPrivateAndDisappears) {
  {
    auto scratch = ScratchFolder::create("tool");
    ASSERT_TRUE(scratch.ok()) << scratch.status().message();
    std::string path = (*scratch)->file("object.o");
    std::ofstream(path) << "text";
    ASSERT_EQ(names().size(), 1u);
    struct stat info = {};
    stat(at(*names().begin()).c_str(), &info);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_TRUE(path.starts_with(folder.string()));
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(ScratchFolderTest, NamesTmpdirWhereNoneCanBeMade) {
  setenv("TMPDIR", at("absent").c_str(), 1);
  Status status = ScratchFolder::create("tool").status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find(at("absent")), std::string::npos);
  EXPECT_NE(status.message().find("TMPDIR"), std::string::npos);
}

TEST_F(ScratchFolderTest, RemovesWhatAKilledProcessLeft) {
  pid_t child = fork();
  if (child == 0) {
    auto scratch = ScratchFolder::create("tool");
    std::ofstream((*scratch)->file("object.o")) << "text";
    raise(SIGKILL);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(names().size(), 1u);
  std::string left = at(*names().begin());
  put("tool-tmp-note", "a file of somebody's");
  // One that has just been made may not be locked yet.
  ASSERT_TRUE(ScratchFolder::create("tool").ok());
  EXPECT_EQ(names().size(), 2u);
  timespec old[2] = {{time(nullptr) - 120, 0}, {time(nullptr) - 120, 0}};
  utimensat(AT_FDCWD, left.c_str(), old, 0);
  ASSERT_TRUE(ScratchFolder::create("other").ok());
  EXPECT_EQ(names().size(), 2u);
  ASSERT_TRUE(ScratchFolder::create("tool").ok());
  EXPECT_EQ(names(), std::set<std::string>{"tool-tmp-note"});
}

TEST_F(ScratchFolderTest, LeavesThoseInUse) {
  auto first = ScratchFolder::create("tool");
  ASSERT_TRUE(first.ok());
  timespec old[2] = {{time(nullptr) - 120, 0}, {time(nullptr) - 120, 0}};
  utimensat(AT_FDCWD, at(*names().begin()).c_str(), old, 0);
  auto second = ScratchFolder::create("tool");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(names().size(), 2u);
}

} // namespace
