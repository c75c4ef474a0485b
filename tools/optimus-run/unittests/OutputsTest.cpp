//===- OutputsTest.cpp - Nothing that a user has is lost ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "optimus-runtime/Checkpoint.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

class Outputs : public ProgramTest {
protected:
  std::string train(const std::string &options) const {
    return "train " + toy("toy2") + data() + " --seed 4 --lr 0.01 " + options;
  }
  /// The step of a whole checkpoint, or -1.
  int64_t savedStep(const std::string &name) const {
    auto checkpoint = optrt::Checkpoint::open(path(name));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    return checkpoint.ok() ? (*checkpoint)->state().step : -1;
  }
  /// What begins with a dot in the test's folder.
  std::vector<std::string> hiddenFiles() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(dir))
      if (entry.path().filename().string().front() == '.')
        names.push_back(entry.path().filename());
    return names;
  }
  void expectRefused(const std::string &arguments, const std::string &why) {
    Outcome outcome = runProgram(arguments);
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("optimus-run: error: "),
                                   HasSubstr(why), Not(HasSubstr("step "))));
  }
};

TEST_F(Outputs, AnInputIsNeverWrittenTo) {
  std::string text = read("text.txt");
  fs::create_symlink("text.txt", path("link"));
  ASSERT_EQ(runProgram(train("--steps 1 --save " + path("ck"))).code, 0);
  for (const char *name : {"text.txt", "link"})
    expectRefused(train("--log-json " + path(name)),
                  "is the same file as --data");
  fs::copy_file(toy("toy2"), path("toy.so"));
  expectRefused("train " + path("toy.so") + data() + " --log-json " +
                    path("toy.so"),
                "is the same file as the library");
  fs::copy_file(path("text.txt"), path("held.txt"));
  expectRefused(train("--eval-data " + path("held.txt") + " --log-json " +
                      path("held.txt")),
                "is the same file as --eval-data");
  for (const char *option : {"--load ", "--save "})
    expectRefused(train(option + path("ck") + " --log-json " + path("ck/log")),
                  "lies in --" + std::string(option, 2, 4));
  expectRefused(train("--load " + path("none") + " --save " + path("none")),
                "expected a folder that `optimus-run train --save` wrote");
  // No log, whatever it is.
  write("thesis", "years of work");
  expectRefused(train("--log-json " + path("thesis")),
                "is not the log of a run");
  EXPECT_EQ(read("text.txt"), text);
  EXPECT_EQ(read("held.txt"), text);
  EXPECT_EQ(read("thesis"), "years of work");
  EXPECT_EQ(read("toy.so"), [&] {
    std::ifstream file(toy("toy2"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }());
  EXPECT_EQ(savedStep("ck"), 1);
}

TEST_F(Outputs, ARunThatIsRefusedLeavesTheLogAsItIs) {
  ASSERT_EQ(runProgram(train("--steps 3 --log-json " + path("log"))).code, 0);
  std::string log = read("log");
  write("short.txt", "short");
  EXPECT_EQ(runProgram("train " + toy("toy2") + " --data " + path("short.txt") +
                       " --log-json " + path("log"))
                .code,
            1);
  EXPECT_EQ(
      runProgram(train("--load " + path("none") + " --log-json " + path("log")))
          .code,
      1);
  EXPECT_EQ(read("log"), log);
}

TEST_F(Outputs, OneLogForARunAndThoseThatGoOn) {
  std::string files =
      " --save " + path("ck") + " --log-json " + path("log") + " ";
  ASSERT_EQ(runProgram(train("--steps 9" + files)).code, 0);
  auto whole = readLog("log");
  fs::remove_all(path("ck"));
  ASSERT_EQ(runProgram(train("--steps 5" + files)).code, 0);
  // It went on for two steps, and into a third, without saving.
  ASSERT_EQ(runProgram(train("--steps 7 --load " + path("ck") + " --log-json " +
                             path("log")))
                .code,
            0);
  std::ofstream(path("log"), std::ios::app) << "{\"step\":8,\"los";
  Outcome outcome = runProgram("train " + toy("toy2") + data() +
                               " --steps 9 --load " + path("ck") + files);
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("lines after step 5 make room"));
  auto log = readLog("log");
  ASSERT_EQ(log.size(), 9u);
  for (int i = 0; i != 9; ++i) {
    EXPECT_EQ(log[i]["step"], i + 1);
    EXPECT_EQ(log[i]["loss"], whole[i]["loss"]);
  }
}

TEST_F(Outputs, ALogThatCannotBeWrittenKeepsNobodyFromTrainingAndSaving) {
  Outcome outcome =
      runProgram(train("--steps 6 --log-json /dev/full --save " + path("ck")));
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("warning: --log-json: cannot write '/dev/full': "
                              "No space left on device; training goes on"),
                    HasSubstr("saved to"),
                    HasSubstr("error: --log-json: 8 lines are missing in "
                              "'/dev/full'")));
  EXPECT_EQ(savedStep("ck"), 6);
}

TEST_F(Outputs, StandardOutputThatIsLostIsSaidInTheEnd) {
  auto toFull = [](const std::string &arguments) {
    return runShell(OPTIMUS_RUN " " + arguments + " 2>&1 > /dev/full");
  };
  Outcome outcome = toFull(train("--steps 5 --save " + path("ck")));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("error: cannot write to standard output: "
                                     "No space left on device"));
  EXPECT_EQ(savedStep("ck"), 5);
  // ThreadSanitizer does not see how OpenMP's threads wait for one another.
  const std::string one = toy("toy1"), oneThread = " --threads-per-rank 1";
  for (const std::string &arguments : std::vector<std::string>{
           "inspect --json " + one, "inspect " + one,
           "eval --json " + one + data() + oneThread,
           "verify " + one + " " + toy("toy2") + data() + oneThread,
           "bench --steps 1 " + one + oneThread,
           "bench --comm --ranks 2 --max-bytes 64", "train --help",
           "--version"}) {
    outcome = toFull(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments;
    EXPECT_THAT(outcome.out, HasSubstr("cannot write to standard output"))
        << arguments;
  }
}

TEST_F(Outputs, AReaderThatEndsEndsNoTraining) {
  Outcome outcome =
      runShell(OPTIMUS_RUN " " + train("--steps 400 --save " + path("ck")) +
               " | head -n 1");
  EXPECT_EQ(savedStep("ck"), 400) << outcome.out;
}

TEST_F(Outputs, NoFileGetsTheNumberOfAClosedStream) {
  Outcome outcome = runShell(
      OPTIMUS_RUN " " +
      train("--steps 2 --save " + path("ck") + " --log-json " + path("log")) +
      " >&- 2>&- <&-");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_EQ(savedStep("ck"), 2);
  EXPECT_EQ(readLog("log").size(), 2u);
}

TEST_F(Outputs, ALimitOnFileSizesIsOneMessageAndLeavesNothing) {
  ASSERT_EQ(runProgram(train("--steps 2 --save " + path("ck"))).code, 0);
  Outcome outcome =
      runProgram(train("--steps 4 --overwrite --save " + path("ck")),
                 "ulimit -f 100; exec");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("--save after step 4: "),
                                 HasSubstr("File too large")));
  EXPECT_EQ(savedStep("ck"), 2);
  EXPECT_THAT(hiddenFiles(), IsEmpty());
}

TEST_F(Outputs, ACheckpointThatWasNotLoadedIsNotReplaced) {
  const std::string save = " --save " + path("ck");
  ASSERT_EQ(runProgram(train("--steps 9" + save)).code, 0);
  const std::string state = read("ck/state.json");
  auto expectKept = [&](const std::string &flags, const std::string &why) {
    Outcome outcome = runProgram(train(flags));
    EXPECT_EQ(outcome.code, 1) << flags << outcome.out;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("--save: "), HasSubstr(why),
                      HasSubstr("--resume"), HasSubstr("--overwrite"),
                      Not(HasSubstr("| loss"))));
    EXPECT_EQ(read("ck/state.json"), state) << flags;
    EXPECT_THAT(hiddenFiles(), IsEmpty());
  };
  expectKept("--steps 2" + save, "ck has a checkpoint of step 9");
  expectKept("--steps 2" + save + "/", "a checkpoint of step 9");
  fs::create_directory_symlink("ck", path("link"));
  expectKept("--steps 2 --save " + path("link"), "a checkpoint of step 9");
  // Another one is loaded; without a name, or with one more.
  ASSERT_EQ(runProgram(train("--steps 3 --save " + path("other"))).code, 0);
  expectKept("--steps 5 --load " + path("other") + save,
             "a checkpoint of step 9");
  // Two renames that were cut short leave it under another name.
  fs::rename(path("ck"), path(".ck.optimus-old"));
  Outcome outcome = runProgram(train("--steps 2" + save));
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("a checkpoint of step 9"));
  fs::rename(path(".ck.optimus-old"), path("ck"));
  // What was loaded may be replaced, under whatever name.
  fs::copy(path("ck"), path("copy"));
  for (const char *loaded : {"ck", "link", "copy"}) {
    outcome = runProgram("train " + toy("toy2") + data() +
                         " --steps 9 --load " + path(loaded) + save);
    EXPECT_EQ(outcome.code, 0) << loaded << outcome.out;
    EXPECT_EQ(savedStep("ck"), 9);
  }
  write("ck/state.json", "{");
  outcome = runProgram(train("--steps 2" + save));
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("a checkpoint that cannot be read"),
                                 HasSubstr("state.json is damaged")));
  outcome = runProgram(train("--steps 2 --overwrite" + save));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(savedStep("ck"), 2);
}

TEST_F(Outputs, OneCommandBeginsAndGoesOn) {
  const std::string files =
      " --resume --save " + path("ck") + " --log-json " + path("log");
  const std::string whole = train("--steps 6 --log-json " + path("whole"));
  ASSERT_EQ(runProgram(whole).code, 0);
  // An empty folder is none to go on from.
  fs::create_directory(path("ck"));
  Outcome outcome = runProgram(train("--steps 4" + files));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("ck: no checkpoint yet, training begins"));
  outcome = runProgram(train("--steps 6" + files));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("ck: going on after step 4"));
  outcome = runProgram(train("--steps 6" + files));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("nothing to train"));
  auto log = readLog("log"), expected = readLog("whole");
  ASSERT_EQ(log.size(), expected.size());
  for (std::size_t i = 0; i != log.size(); ++i)
    EXPECT_EQ(log[i]["loss"], expected[i]["loss"]) << i;
  // --load says where it begins, once.
  fs::rename(path("ck"), path("first"));
  const std::string from = train("--steps 8 --load " + path("first") + files);
  outcome = runProgram(from);
  EXPECT_THAT(outcome.out, HasSubstr("first: going on after step 6"));
  outcome = runProgram(from);
  EXPECT_THAT(outcome.out, HasSubstr("ck: going on after step 8"));
  // What is there and is none is said.
  fs::remove(path("ck/state.json"));
  expectRefused(from, "ck is not a checkpoint: it has no state.json");
  expectRefused(train("--resume"), "--save");
  expectRefused(train("--overwrite"), "--save");
  expectRefused(train("--resume --overwrite --save " + path("ck")), "excludes");
}

TEST_F(Outputs, TwoRunsCannotSaveToOneFolder) {
  // The first is stopped when it is heard of the second.
  std::string first = train("--steps 1000000 --save " + path("ck") +
                            " --log-json " + path("log"));
  std::string second = OPTIMUS_RUN " " + train("--steps 1 --save ");
  Outcome outcome = runShell(
      "exec 2>&1; " OPTIMUS_RUN " " + first + " & first=$!; while ! [ -s " +
      path("log") + " ]; do sleep 0.01; done; " + second + path("ck") + "; " +
      second + path("./ck/") + "; " + second + path("other") + " --log-json " +
      path("log") + "; kill $first; wait $first");
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.out;
  std::size_t one = outcome.out.find("ck is being written by process ");
  EXPECT_NE(one, std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("ck/ is being written by process ", one + 1),
            std::string::npos)
      << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("--log-json: another run is writing to"));
  EXPECT_GT(savedStep("ck"), 0);
  EXPECT_THAT(hiddenFiles(), IsEmpty());
  EXPECT_FALSE(fs::exists(path("other")));
}

TEST_F(Outputs, WhatAKilledRunHeldIsTakenOver) {
  signalProgram(train("--steps 1000000 --save " + path("ck") + " --log-json " +
                      path("log")),
                SIGKILL, path("log"));
  EXPECT_THAT(hiddenFiles(), testing::ElementsAre(".ck.optimus-lock"));
  Outcome outcome =
      runProgram(train("--steps 2 --overwrite --save " + path("ck") +
                       " --log-json " + path("log")));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(hiddenFiles(), IsEmpty());
}

TEST_F(Outputs, AMachineProfileIsReplacedAsAWholeAndThroughLinks) {
  write("real.json", R"({"version": 1, "gemm": [{"m": 7}]})");
  fs::create_symlink("real.json", path("link.json"));
  fs::permissions(path("real.json"), fs::perms(0640));
  std::string bench = "bench --comm --ranks 2 --max-bytes 64 --profile ";
  Outcome outcome = runProgram(bench + path("link.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_TRUE(fs::is_symlink(path("link.json")));
  EXPECT_EQ(nlohmann::json::parse(read("real.json"))["comm"].size(), 5u);
  EXPECT_EQ(fs::status(path("real.json")).permissions(), fs::perms(0640));
  EXPECT_EQ(runProgram(bench + "/dev/null").code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  expectRefused(bench + dir, "it is a folder");
  EXPECT_THAT(hiddenFiles(), IsEmpty());
}

} // namespace
