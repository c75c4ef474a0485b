//===- OutputFileTest.cpp - One output of a tool --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/OutputFile.h"

#include "FolderTest.h"

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace optimus_support;
using Names = std::set<std::string>;

namespace {

class OutputFileTest : public FolderTest {};

mode_t modeOf(const std::string &path) {
  struct stat info = {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0);
  return info.st_mode;
}

void expectRefusal(const std::string &path, const std::string &why) {
  Status status = checkOutput(path);
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  EXPECT_EQ(OutputFile::open(path).status().message(), status.message());
}

TEST_F(OutputFileTest, ReplacesAFileOnlyWhenAllIsWritten) {
  std::string path = put("out", "old");
  {
    StatusOr<OutputFile> file = OutputFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(file->append("ne").ok());
    EXPECT_EQ(read(path), "old");
    ASSERT_TRUE(file->append("w").ok());
    ASSERT_TRUE(file->commit().ok());
  }
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(OutputFileTest, LeavesNothingWithoutCommit) {
  std::string path = put("out", "old");
  {
    StatusOr<OutputFile> file = OutputFile::open(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append("new").ok());
    EXPECT_EQ(names().size(), 2u);
  }
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(OutputFileTest, KeepsPermissions) {
  std::string path = put("out", "old");
  chmod(path.c_str(), 0640);
  ASSERT_TRUE(OutputFile::write(path, "new").ok());
  EXPECT_EQ(modeOf(path) & 07777, 0640u);
  ASSERT_TRUE(OutputFile::write(path, "new", {.executable = true}).ok());
  EXPECT_EQ(modeOf(path) & 07777, 0750u);
}

TEST_F(OutputFileTest, NewFilesFollowTheUmask) {
  mode_t old = umask(027);
  EXPECT_TRUE(OutputFile::write(at("text"), "").ok());
  EXPECT_TRUE(OutputFile::write(at("program"), "", {.executable = true}).ok());
  umask(old);
  EXPECT_EQ(modeOf(at("text")) & 07777, 0640u);
  EXPECT_EQ(modeOf(at("program")) & 07777, 0750u);
}

TEST_F(OutputFileTest, FollowsLinks) {
  std::filesystem::create_directory(at("deep"));
  put("deep/file", "old");
  // Relative to where the link lies, through another link.
  std::filesystem::create_symlink("file", at("deep/link"));
  std::filesystem::create_symlink("deep/link", at("link"));
  ASSERT_TRUE(OutputFile::write(at("link"), "new").ok());
  EXPECT_EQ(read(at("deep/file")), "new");
  EXPECT_TRUE(S_ISLNK(modeOf(at("link"))));
  EXPECT_TRUE(S_ISLNK(modeOf(at("deep/link"))));

  std::filesystem::create_symlink("deep/later", at("dangling"));
  ASSERT_TRUE(OutputFile::write(at("dangling"), "made").ok());
  EXPECT_EQ(read(at("deep/later")), "made");
  EXPECT_TRUE(S_ISLNK(modeOf(at("dangling"))));

  std::filesystem::create_symlink("circle", at("circle"));
  expectRefusal(at("circle"), "leads nowhere");
}

TEST_F(OutputFileTest, WritesToDevices) {
  struct stat before = {}, after = {};
  ASSERT_EQ(stat("/dev/null", &before), 0);
  EXPECT_TRUE(OutputFile::write("/dev/null", "text").ok());
  ASSERT_EQ(stat("/dev/null", &after), 0);
  EXPECT_TRUE(S_ISCHR(after.st_mode));
  EXPECT_EQ(before.st_ino, after.st_ino);

  std::filesystem::create_symlink("/dev/null", at("link"));
  EXPECT_TRUE(OutputFile::write(at("link"), "text").ok());
  EXPECT_EQ(names(), Names{"link"});

  Status full = OutputFile::write("/dev/full", "text");
  EXPECT_EQ(full.code(), StatusCode::Unavailable);
  EXPECT_EQ(full.message(),
            "cannot write '/dev/full': No space left on device");
}

TEST_F(OutputFileTest, WritesToPipes) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(checkOutput(at("pipe")).ok());
  Status alone = OutputFile::write(at("pipe"), "text");
  EXPECT_EQ(alone.message(),
            concat("cannot write '", at("pipe"), "': nobody reads from it"));

  int reader = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(OutputFile::write(at("pipe"), "text").ok());
  char text[8];
  EXPECT_EQ(::read(reader, text, sizeof(text)), 4);
  close(reader);
  EXPECT_TRUE(S_ISFIFO(modeOf(at("pipe"))));
}

TEST_F(OutputFileTest, RefusesWhatCannotBeWritten) {
  expectRefusal("", "without a name");
  expectRefusal(folder, "it is a folder");
  expectRefusal(at("none/"), "it is a folder");
  expectRefusal(at("none/out"), "no folder");
  put("file", "");
  expectRefusal(at("file/out"), "Not a directory");

  int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {AF_UNIX, {}};
  ASSERT_LT(at("socket").size(), sizeof(address.sun_path));
  std::copy_n(at("socket").c_str(), at("socket").size() + 1, address.sun_path);
  ASSERT_EQ(
      bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)),
      0);
  expectRefusal(at("socket"), "neither a file nor a device");
  close(listener);
}

TEST_F(OutputFileTest, RespectsReadOnlyFiles) {
  chmod(folder.c_str(), 0777);
  chmod(put("file", "old").c_str(), 0444);
  std::filesystem::create_directory(at("closed"));
  chmod(at("closed").c_str(), 0555);
  pid_t child = fork();
  if (child == 0) {
    // Root may write everything.
    if (geteuid() == 0 && setuid(65534) != 0)
      _exit(8);
    if (access(folder.c_str(), X_OK) != 0)
      _exit(9);
    expectRefusal(at("file"), "Permission denied");
    expectRefusal(at("closed/file"), "no file can be made");
    _exit(HasFailure() ? 8 : 7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 9)
    GTEST_SKIP() << "only root can enter " << folder;
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(OutputFileTest, StreamsKeepTheirNames) {
  // /dev/stdout is a link to whatever standard output is, here a file.
  std::string path = put("out", "");
  int saved = dup(STDOUT_FILENO), file = open(path.c_str(), O_WRONLY);
  struct stat before = {}, after = {};
  stat(path.c_str(), &before);
  dup2(file, STDOUT_FILENO);
  Status written = OutputFile::write("/dev/stdout", "one ");
  Status dashed = OutputFile::write("-", "two ");
  Status named = OutputFile::write(path, "three");
  dup2(saved, STDOUT_FILENO);
  close(saved);
  close(file);
  EXPECT_TRUE(written.ok()) << written.message();
  EXPECT_TRUE(dashed.ok());
  EXPECT_TRUE(named.ok());
  stat(path.c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(read(path), "one two three");
}

TEST_F(OutputFileTest, KnowsStandardOutput) {
  int saved = dup(STDOUT_FILENO), file = open(put("out", "").c_str(), O_WRONLY);
  dup2(file, STDOUT_FILENO);
  bool dashed = isStandardOutput("-"), device = isStandardOutput("/dev/stdout");
  bool named = isStandardOutput(at("out"));
  bool other = isStandardOutput(put("other", "")), none = isStandardOutput("");
  dup2(saved, STDOUT_FILENO);
  close(saved);
  close(file);
  EXPECT_TRUE(dashed && device && named);
  EXPECT_FALSE(other || none);
}

TEST_F(OutputFileTest, CopiesAFile) {
  std::string text(size_t(3) << 20, 'x');
  text.back() = 'y';
  put("from", text);
  StatusOr<OutputFile> file = OutputFile::open(at("to"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->append("first ").ok());
  ASSERT_TRUE(file->appendFile(at("from")).ok());
  EXPECT_EQ(file->appendFile(at("absent")).code(), StatusCode::Unavailable);
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(read(at("to")), "first " + text);
}

TEST_F(OutputFileTest, LongNames) {
  std::string name(250, 'n');
  ASSERT_TRUE(OutputFile::write(at(name), "text").ok());
  EXPECT_EQ(names(), Names{name});
}

TEST_F(OutputFileTest, AFileTooLargeIsAnError) {
  std::string path = put("out", "old");
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    Status status = OutputFile::write(path, std::string(200, 'x'));
    _exit(status.message() == "cannot write '" + path + "': File too large"
              ? 7
              : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(OutputFileTest, RemovesWhatAKilledWriterLeft) {
  std::string path = at("out");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    StatusOr<OutputFile> file = OutputFile::open(path);
    [[maybe_unused]] ssize_t said = write(ready[1], "x", 1);
    pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  // One that is being written is left alone.
  ASSERT_TRUE(OutputFile::write(path, "first").ok());
  EXPECT_EQ(names().size(), 2u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(names().size(), 2u);
  ASSERT_TRUE(OutputFile::write(path, "second").ok());
  EXPECT_EQ(names(), Names{"out"});
  EXPECT_EQ(read(path), "second");
}

TEST_F(OutputFileTest, WritersAtOnceEachWriteAWhole) {
  std::vector<std::thread> threads;
  for (char c = 'a'; c != 'e'; ++c)
    threads.emplace_back([&, c] {
      for (int i = 0; i != 50; ++i)
        EXPECT_TRUE(OutputFile::write(at("out"), std::string(1000, c)).ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  std::string text = read(at("out"));
  EXPECT_EQ(text, std::string(1000, text[0]));
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(OutputFileTest, GrowsWhatIsThere) {
  auto grow = [](const std::string &path, const std::string &text) {
    StatusOr<GrowingOutput> output = openToGrow(path);
    EXPECT_TRUE(output.ok()) << output.status().message();
    if (!output.ok())
      return false;
    EXPECT_TRUE(writeAll(output->descriptor, text, path).ok());
    close(output->descriptor);
    return output->isRegular;
  };
  put("file", "one\n");
  std::filesystem::create_symlink("file", at("link"));
  EXPECT_TRUE(grow(at("link"), "two\n"));
  EXPECT_EQ(read(at("file")), "one\ntwo\n");
  EXPECT_TRUE(grow(at("new"), "one\n"));
  EXPECT_EQ(read(at("new")), "one\n");
  EXPECT_FALSE(grow("/dev/null", "gone"));
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_NE(openToGrow(at("pipe")).status().message().find("nobody reads"),
            std::string::npos);
  EXPECT_NE(openToGrow(folder).status().message().find("it is a folder"),
            std::string::npos);
}

} // namespace
