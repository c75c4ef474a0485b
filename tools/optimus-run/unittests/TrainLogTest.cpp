//===- TrainLogTest.cpp - The file of --log-json --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainLog.h"
#include "RunEnd.h"

#include "optimus-runtime/Exception.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace optimus_run;
using namespace optrt;
using testing::HasSubstr;

namespace {

class TrainLogTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "optimus-log-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = folder + "/log";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void put(const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string get() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Opens the log, begins, and adds the lines of these steps.
  std::string write(std::optional<int64_t> loaded, std::vector<int> steps) {
    auto log = TrainLog::open(path, loaded);
    EXPECT_TRUE(log.ok()) << log.status().message();
    if (!log.ok())
      return "";
    EXPECT_TRUE(log->begin().ok());
    for (int step : steps)
      EXPECT_TRUE(log->append(line(step)).ok());
    EXPECT_TRUE(log->finish().ok());
    return log->notice();
  }
  void expectRefused(const std::string &text, std::optional<int64_t> loaded,
                     const std::string &why) {
    put(text);
    auto log = TrainLog::open(path, loaded);
    EXPECT_EQ(log.status().code(), StatusCode::InvalidArgument) << text;
    EXPECT_THAT(log.status().message(), HasSubstr(why));
    EXPECT_EQ(get(), text);
  }

  static std::string line(int step) {
    return "{\"step\":" + std::to_string(step) + ",\"loss\":1.5}";
  }
  static std::string lines(int first, int last) {
    std::string text;
    for (int step = first; step <= last; ++step)
      text += line(step) + "\n";
    return text;
  }

  std::string folder, path;
};

TEST_F(TrainLogTest, ARunFromTheStartReplacesOnlyALog) {
  EXPECT_EQ(write(std::nullopt, {1, 2}), "");
  EXPECT_EQ(get(), lines(1, 2));
  EXPECT_THAT(write(std::nullopt, {1}), HasSubstr("is replaced"));
  EXPECT_EQ(get(), lines(1, 1));
  // As another program may write it, and as a killed run leaves it.
  for (const char *text :
       {"{\"loss\": 3, \"step\": 1}\n", "{\"step\":1,\"lo", "{\"st", ""}) {
    put(text);
    write(std::nullopt, {1});
    EXPECT_EQ(get(), lines(1, 1)) << text;
  }
  for (std::string text :
       {std::string("years of work"), std::string("{\"loss\": 1}\n"),
        std::string("[1, 2]\n"), std::string("\n"), std::string(100, '\0'),
        std::string("{\"step\":1") + std::string(100'000, ' ')})
    expectRefused(text, std::nullopt, "it stays as it is");
}

TEST_F(TrainLogTest, OpeningChangesNothing) {
  put(lines(1, 5));
  ASSERT_TRUE(TrainLog::open(path, std::nullopt).ok());
  ASSERT_TRUE(TrainLog::open(path, 2).ok());
  EXPECT_EQ(get(), lines(1, 5));
}

TEST_F(TrainLogTest, ARunThatGoesOnKeepsTheLinesUpToItsCheckpoint) {
  put(lines(1, 7) + "{\"step\":8,\"lo");
  EXPECT_THAT(write(5, {6}), HasSubstr("lines after step 5 make room"));
  EXPECT_EQ(get(), lines(1, 6));
  // The end as it should be.
  EXPECT_EQ(write(6, {7}), "");
  EXPECT_EQ(get(), lines(1, 7));
  // Nothing but half a line of the first step taken again.
  put(lines(1, 3) + line(4).substr(0, 9));
  EXPECT_EQ(write(3, {4}), "");
  EXPECT_EQ(get(), lines(1, 4));
  // The remains after a machine went down.
  put(lines(1, 3) + std::string(50, '\0'));
  write(3, {4});
  EXPECT_EQ(get(), lines(1, 4));
  // A new file, and an empty one.
  std::filesystem::remove(path);
  EXPECT_EQ(write(10, {11}), "");
  EXPECT_EQ(get(), lines(11, 11));
  // Longer than what is read at once.
  put(lines(1, 20'000));
  write(15'000, {15'001});
  EXPECT_EQ(get(), lines(1, 15'001));
}

TEST_F(TrainLogTest, TheEndOfARunMakesRoomForTheOneThatGoesOn) {
  const std::string end = describeEnd(RunEnd::Stopped, 3, okStatus());
  EXPECT_EQ(end, "{\"ended\":\"stopped\",\"step\":3}");
  for (std::string rest :
       {end + "\n", end.substr(0, 12), std::string("{\"e")}) {
    put(lines(1, 3) + rest);
    EXPECT_EQ(write(3, {4}), "");
    EXPECT_EQ(get(), lines(1, 4)) << rest;
    // A run of no step has no other line.
    put(rest);
    write(std::nullopt, {1});
    EXPECT_EQ(get(), lines(1, 1)) << rest;
  }
}

TEST_F(TrainLogTest, TheBeginningOfARunStaysWithItsSteps) {
  const std::string first = "{\"began\":\"then\",\"step\":0}\n";
  const std::string second = "{\"began\":\"now\",\"step\":3}\n";
  put(first + lines(1, 3) + second + lines(4, 6));
  write(5, {6});
  EXPECT_EQ(get(), first + lines(1, 3) + second + lines(4, 6));
  // Of a run whose steps are all taken again, nothing is left.
  write(3, {4});
  EXPECT_EQ(get(), first + lines(1, 4));
  for (const std::string &rest : {first, first.substr(0, 4)}) {
    put(rest);
    write(std::nullopt, {1});
    EXPECT_EQ(get(), lines(1, 1)) << rest;
  }
}

TEST_F(TrainLogTest, ARunThatNeverBeganEndsOnlyAnEmptyLog) {
  const std::string end =
      describeEnd(RunEnd::Memory, 0, unavailable("cannot allocate 9 bytes"));
  for (std::string before : {std::string(), lines(1, 2)}) {
    put(before);
    auto log = TrainLog::open(path, std::nullopt);
    ASSERT_TRUE(log.ok());
    EXPECT_TRUE(log->appendEnd(end).ok());
    EXPECT_EQ(get(), before.empty() ? end + "\n" : before);
  }
  EXPECT_TRUE(TrainLog().appendEnd(end).ok()) << "without --log-json";
}

TEST(RunEnd, FollowsFromAStatus) {
  EXPECT_EQ(endOf(okStatus()), RunEnd::Done);
  EXPECT_EQ(endOf(internal("out of memory")), RunEnd::Fault);
  EXPECT_EQ(endOf(unavailable("no such device")), RunEnd::Fault);
  EXPECT_EQ(endOf(unavailable("rank 0: cannot allocate 8 bytes for the arena")),
            RunEnd::Memory);
  // As an exception says it.
  Status status;
  try {
    throw std::bad_alloc();
  } catch (...) {
    status = statusOfException();
  }
  EXPECT_EQ(endOf(status), RunEnd::Memory);
  EXPECT_EQ(describeEnd(RunEnd::Data, 7, invalidArgument("a \xff byte")),
            "{\"ended\":\"data\",\"step\":7,\"message\":\"a \uFFFD byte\"}");
}

TEST_F(TrainLogTest, LinesThatAreMissingAreSaid) {
  put(lines(1, 3));
  EXPECT_THAT(write(5, {6}), HasSubstr("has no lines of steps 4 to 5"));
  EXPECT_EQ(get(), lines(1, 3) + lines(6, 6));
}

TEST_F(TrainLogTest, WhatIsNotTheLogOfOneRunIsRefused) {
  expectRefused("years of work\n", 3, "line 1 is no JSON object");
  expectRefused(lines(1, 2) + "a note\n" + lines(3, 4), 2,
                "line 3 is no JSON object");
  expectRefused(lines(1, 4) + lines(2, 6), 5,
                "in line 5 step 2 follows step 4");
}

TEST_F(TrainLogTest, TwoRunsCannotHaveOneLog) {
  auto first = TrainLog::open(path, std::nullopt);
  ASSERT_TRUE(first.ok());
  Status second = TrainLog::open(path, std::nullopt).status();
  EXPECT_EQ(second.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(second.message(), HasSubstr("another run is writing to"));
  first = invalidArgument("gone");
  first = TrainLog::open(path, std::nullopt);
  EXPECT_TRUE(first.ok());
}

TEST_F(TrainLogTest, WritesToPipesDevicesAndThroughLinks) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  write(3, {4, 5});
  char text[1000];
  ssize_t got = read(reader, text, sizeof(text));
  EXPECT_EQ(std::string(text, got > 0 ? got : 0), lines(4, 5));
  close(reader);

  std::filesystem::remove(path);
  std::filesystem::create_symlink("target", path);
  write(std::nullopt, {1});
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(get(), lines(1, 1));

  path = "/dev/null";
  write(std::nullopt, {1});
  path = folder;
  EXPECT_THAT(TrainLog::open(path, std::nullopt).status().message(),
              HasSubstr("it is a folder"));
}

TEST_F(TrainLogTest, LinesThatFoundNoRoomAreWrittenOnceThereIsSome) {
  auto log = TrainLog::open(path, std::nullopt);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->append(line(1)).ok());
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  // Room for a line and a half.
  rlimit small = {lines(1, 1).size() * 3 / 2, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Status second = log->append(line(2)), third = log->append(line(3));
  Status end = log->finish();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(second.code(), StatusCode::Unavailable);
  EXPECT_THAT(second.message(), HasSubstr("File too large"));
  // Said once.
  EXPECT_TRUE(third.ok());
  EXPECT_EQ(end.code(), StatusCode::Unavailable);
  EXPECT_THAT(end.message(), HasSubstr("2 lines are missing"));

  EXPECT_TRUE(log->append(line(4)).ok());
  EXPECT_TRUE(log->finish().ok());
  EXPECT_EQ(get(), lines(1, 4));
}

} // namespace
