//===- ProcessTest.cpp - What every tool does first and last --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Process.h"

#include "FolderTest.h"
#include "optimus-support/OutputFile.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

using namespace optimus_support;

namespace {

class ProcessTest : public FolderTest {};

/// The wait status of a process that runs `body`.
int inChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(ProcessTest, FilesDoNotTakeTheNumbersOfClosedStreams) {
  int status = inChild([&] {
    for (int stream : {0, 1, 2})
      close(stream);
    startProcess();
    int file = open(put("file", "").c_str(), O_WRONLY);
    // What is printed must not reach it, nor be lost in silence.
    bool printed = write(STDOUT_FILENO, "text", 4) == 4;
    return file > 2 && !printed && errno == EBADF ? 7 : 8;
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(ProcessTest, SaysThatStandardOutputIsLost) {
  int status = inChild([] {
    startProcess();
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    std::printf("some text");
    Status end = finishStandardOutput();
    return end.message() ==
                   "cannot write to standard output: No space left on device"
               ? 7
               : 8;
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(ProcessTest, SaysSoWhereAnEarlierWriteFailed) {
  int status = inChild([] {
    startProcess();
    int saved = dup(STDOUT_FILENO);
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    std::printf("some text");
    std::fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    return finishStandardOutput().ok() ? 8 : 7;
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(ProcessTest, AcceptsWhatWasPrinted) {
  int status = inChild([] {
    startProcess();
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    std::printf("some text");
    return finishStandardOutput().ok() ? 7 : 8;
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(ProcessTest, SignalsRemoveTemporariesAndKeepTheirEffect) {
  for (int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
                     SIGXCPU, SIGPIPE, SIGABRT, SIGSEGV}) {
    put("out", "old");
    // Sanitizers report a fault by handlers that exit with a code of theirs.
    struct sigaction own;
    sigaction(signal, nullptr, &own);
    bool isReported = own.sa_handler != SIG_DFL && own.sa_handler != SIG_IGN;
    int status = inChild([&] {
      // What started the tests may have it ignored, as & of a script does.
      if (own.sa_handler == SIG_IGN)
        ::signal(signal, SIG_DFL);
      startProcess();
      StatusOr<OutputFile> file = OutputFile::open(at("out"));
      TemporaryPath inner(at("scratch/file")), outer(at("scratch"));
      std::filesystem::create_directory(at("scratch"));
      put("scratch/file", "");
      raise(signal);
      return 0;
    });
    EXPECT_EQ(WIFSIGNALED(status), !isReported) << strsignal(signal);
    EXPECT_EQ(WTERMSIG(status), isReported ? 0 : signal);
    EXPECT_EQ(names(), std::set<std::string>{"out"}) << strsignal(signal);
  }
}

TEST_F(ProcessTest, IgnoredSignalsStayIgnored) {
  int status = inChild([] {
    signal(SIGHUP, SIG_IGN);
    startProcess();
    raise(SIGHUP);
    return 7;
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

} // namespace
