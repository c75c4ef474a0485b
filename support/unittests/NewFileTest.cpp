//===- NewFileTest.cpp - A file that is written from its start ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/NewFile.h"

#include "FolderTest.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace optimus_support;

namespace {

/// Of a process that ends with it.
enum Outcome { Passed, Failed, CannotMount };

class NewFileTest : public FolderTest {
protected:
  /// Runs a test of a file system in memory with so little room, mounted for a
  /// child alone.
  template <typename Test>
  Outcome runInMemory(const char *room, Test test) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string size = concat("size=", room);
      if (unshare(CLONE_NEWNS) != 0 ||
          mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount("none", folder.c_str(), "tmpfs", 0, size.c_str()) != 0)
        _exit(CannotMount);
      test();
      _exit(testing::Test::HasFailure() ? Failed : Passed);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? Outcome(WEXITSTATUS(status)) : Failed;
  }
};

/// The elements of a file, none of which is alike those near it.
std::string textOf(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i != bytes; ++i)
    text[i] = char(i * 7 + i / 251);
  return text;
}

/// Writes it from several places at once, in parts that end within pages.
void writeInParts(const std::string &path, const std::string &text) {
  StatusOr<NewFile> file = NewFile::create(path, 0);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(file->resize(text.size()).ok());
  StatusOr<NewFile> joined = NewFile::join(path);
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  const size_t middle = text.size() / 2, part = 10'007;
  for (const auto &[writer, begin, end] :
       {std::tuple(&*joined, middle, text.size()), {&*file, 0, middle}})
    for (size_t at = begin; at < end; at += part) {
      Status written =
          writer->write(at, text.data() + at, std::min(part, end - at));
      ASSERT_TRUE(written.ok()) << written.message();
    }
}

TEST_F(NewFileTest, HasTheSameBytesOnDiskAndInMemory) {
  const std::string text = textOf(123'457);
  writeInParts(at("file"), text);
  EXPECT_EQ(read(at("file")), text);
  const Outcome outcome = runInMemory("1m", [&] {
    writeInParts(at("file"), text);
    EXPECT_EQ(read(at("file")), text);
    // Where it ends is no limit.
    StatusOr<NewFile> file = NewFile::join(at("file"));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->isInMemory());
    EXPECT_TRUE(file->write(text.size(), text.data(), 10'000).ok());
    EXPECT_EQ(read(at("file")), text + text.substr(0, 10'000));
  });
  if (outcome == CannotMount)
    GTEST_SKIP() << "this machine lets nobody mount a disk";
  EXPECT_EQ(outcome, Passed);
}

// Who touches a page of a full file system is killed.
TEST_F(NewFileTest, MemoryThatIsFullIsOneMessage) {
  const std::string text = textOf(48 << 10);
  const Outcome outcome = runInMemory("64k", [&] {
    StatusOr<NewFile> file = NewFile::create(at("file"), 0);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(file->resize(1 << 20).ok());
    EXPECT_TRUE(file->write(512 << 10, text.data(), text.size()).ok());
    EXPECT_EQ(
        file->write(0, text.data(), text.size()).message(),
        concat("cannot write '", at("file"), "': No space left on device"));
    EXPECT_EQ(read(at("file")).substr(512 << 10, text.size()), text);
  });
  if (outcome == CannotMount)
    GTEST_SKIP() << "this machine lets nobody mount a disk";
  EXPECT_EQ(outcome, Passed);
}

} // namespace
