//===- ProfileTest.cpp - When commands of a run took place ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Profile.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace optrt;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
namespace fs = std::filesystem;

namespace {

/// The first column of what a query finds in a file.
std::vector<std::string> query(const std::string &path, const char *sql) {
  std::vector<std::string> values;
  sqlite3 *database = nullptr;
  EXPECT_EQ(
      sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr),
      SQLITE_OK);
  auto add = [](void *list, int, char **columns, char **) {
    static_cast<std::vector<std::string> *>(list)->emplace_back(
        columns[0] ? columns[0] : "null");
    return 0;
  };
  char *error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql, add, &values, &error), SQLITE_OK)
      << error;
  sqlite3_free(error);
  sqlite3_close(database);
  return values;
}

/// A model written by hand on a mesh of two ranks, and a folder.
class ProfileTest : public testing::Test {
protected:
  ProfileTest() {
    char name[] = "/tmp/profile-test-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/run.profile";
  }
  ~ProfileTest() override {
    session.reset();
    profile.reset();
    fs::remove_all(folder);
  }

  void open(StepRange steps = {}) {
    auto opened = Profile::open(path, steps);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    profile = std::move(opened).value();
  }
  void start() {
    auto library = ModelLibrary::open(OPTIMUS_TOY2);
    ASSERT_TRUE(library.ok()) << library.status().message();
    model = std::move(library).value();
    world = createLocalWorld();
    SessionOptions options;
    options.functions = {"grad_step"};
    options.threadsPerRank = 1;
    options.observe = [this](const Rank &rank) {
      return profile->observe(rank);
    };
    auto made = Session::create(*model, world, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(made).value();
    ASSERT_TRUE(session->initialize(7).ok());
    Status filled = session->fill(
        [&](int64_t, int64_t count, int32_t *tokens, int32_t *targets) {
          std::fill_n(tokens, count * session->manifest().sequence, 1);
          std::fill_n(targets, count * session->manifest().sequence, 2);
          return okStatus();
        });
    ASSERT_TRUE(filled.ok()) << filled.message();
    Status described =
        profile->describe(*session, *world.control, {{"library", "toy"}});
    ASSERT_TRUE(described.ok()) << described.message();
  }
  void step(int64_t number) {
    profile->beginStep(number);
    ASSERT_TRUE(session->run("grad_step").ok());
    profile->endStep();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto &entry : fs::directory_iterator(folder))
      list.push_back(entry.path().filename());
    return list;
  }
  std::string ending() const {
    return query(path, "SELECT value FROM trace WHERE key = 'ending'").at(0);
  }

  std::string folder, path;
  std::unique_ptr<Profile> profile;
  std::unique_ptr<ModelLibrary> model;
  World world;
  std::unique_ptr<Session> session;
};

TEST_F(ProfileTest, StepsThatAreAskedForAreWritten) {
  open({2, 3});
  start();
  for (int64_t number = 1; number <= 4; ++number)
    step(number);
  // An evaluation between steps.
  ASSERT_TRUE(session->run("grad_step").ok());
  Status finished = profile->finish("finished");
  ASSERT_TRUE(finished.ok()) << finished.message();
  EXPECT_THAT(names(), ElementsAre("run.profile"));
  EXPECT_THAT(query(path, "SELECT step || ' ' || rank FROM calls "
                          "ORDER BY step, rank"),
              ElementsAre("2 0", "2 1", "3 0", "3 1"));
  // Each command of each call.
  EXPECT_THAT(query(path,
                    "SELECT call FROM calls JOIN commands USING (function) "
                    "LEFT JOIN times USING (call, command) WHERE "
                    "times.begin IS NULL OR times.begin < calls.begin OR "
                    "times.end < times.begin OR times.end > calls.end"),
              IsEmpty());
  EXPECT_EQ(query(path, "SELECT count(*) FROM times"),
            query(path, "SELECT 4 * count(*) FROM commands"));
  EXPECT_EQ(query(path, "SELECT count(*) FROM transfers"),
            query(path, "SELECT 4 * count(waits_for) FROM commands"));
  EXPECT_THAT(query(path, "SELECT value FROM trace WHERE key = 'complete'"),
              ElementsAre("1"));
  EXPECT_EQ(ending(), "finished");
  // What a rank holds follows each other.
  EXPECT_THAT(query(path,
                    "SELECT count(*) > 1 AND min(address) = 0 FROM blocks "
                    "WHERE space = 'resident'"),
              ElementsAre("1"));
}

TEST_F(ProfileTest, AStepThatDoesNotEndIsLeftOut) {
  open();
  start();
  step(1);
  profile->beginStep(2);
  ASSERT_TRUE(session->run("grad_step").ok());
  ASSERT_TRUE(profile->finish("failed: rank 1, h.0: broken").ok());
  EXPECT_THAT(query(path, "SELECT DISTINCT step FROM calls"), ElementsAre("1"));
  EXPECT_EQ(query(path, "SELECT count(*) FROM times"),
            query(path, "SELECT 2 * count(*) FROM commands"));
  EXPECT_EQ(ending(), "failed: rank 1, h.0: broken");
}

TEST_F(ProfileTest, WhatWasThereStaysUntilItIsFinished) {
  std::ofstream(path) << "old";
  open();
  start();
  step(1);
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "old");
  ASSERT_TRUE(profile->finish("finished").ok());
  EXPECT_EQ(ending(), "finished");
  // Once only.
  ASSERT_TRUE(profile->finish("failed: later").ok());
  EXPECT_EQ(ending(), "finished");
}

TEST_F(ProfileTest, OneThatWasNotDescribedIsNotLeft) {
  std::ofstream(path) << "old";
  open();
  profile.reset();
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "old");
  EXPECT_THAT(names(), ElementsAre("run.profile"));
}

// A limit on files' sizes stands for a disk that is full.
TEST_F(ProfileTest, AFullDiskEndsRecordingAfterTheLastWholeStep) {
  open();
  start();
  const std::string temporary = names().at(0);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = {rlim_t(fs::file_size(folder + "/" + temporary)) + 30'000,
                  old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  int64_t last = 0;
  while (profile->failure().ok() && last < 100'000)
    step(++last);
  const Status failure = profile->failure();
  Status finished = profile->finish("finished");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(failure.code(), StatusCode::Unavailable);
  EXPECT_THAT(failure.message(),
              StartsWith("disk full: File too large; recorded up to step "));
  ASSERT_TRUE(finished.ok()) << finished.message();
  EXPECT_EQ(ending(), failure.message());
  EXPECT_THAT(query(path, "PRAGMA integrity_check"), ElementsAre("ok"));
  const std::string steps = query(path, "SELECT max(step) FROM calls").at(0);
  EXPECT_GT(std::stoi(steps), 1);
  EXPECT_LT(std::stoi(steps), last);
  EXPECT_THAT(ending(), HasSubstr("up to step " + steps));
  EXPECT_EQ(query(path, "SELECT count(*) FROM times"),
            query(path, "SELECT count(*) FROM calls JOIN commands "
                        "USING (function)"));
}

TEST_F(ProfileTest, DevicesAndPipesAreRefused) {
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  for (const std::string &name :
       {std::string("/dev/null"), std::string("/dev/full"), pipe,
        std::string("-")}) {
    auto opened = Profile::open(name, {});
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(opened.status().message(),
                HasSubstr(concat("cannot write '", name,
                                 "': it is a device, a pipe or a standard "
                                 "stream; expected the name of a file")));
  }
}

} // namespace
