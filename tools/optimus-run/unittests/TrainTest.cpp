//===- TrainTest.cpp - Training, saving, going on, evaluating -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "optimus-runtime/Checkpoint.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <sstream>

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

using Train = ProgramTest;

/// The elements of one tensor of a checkpoint.
std::vector<float> tensorOf(const std::string &dir, const std::string &name) {
  auto checkpoint = optrt::Checkpoint::open(dir);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  if (!checkpoint.ok())
    return {};
  auto values = (*checkpoint)->readTensor(name);
  EXPECT_TRUE(values.ok()) << values.status().message();
  if (!values.ok())
    return {};
  return {values->begin(), values->end()};
}

TEST_F(Train, SaysWhichHyperparametersChangeNothing) {
  Outcome outcome = runProgram("train " + toy("toy1") + data() +
                               " --steps 1 --momentum 0.5 --beta1 0.8");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out,
              HasSubstr("--momentum changes nothing: the optimizer "));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("--beta1")));
}

TEST_F(Train, LowersTheLossAndLogsEveryStep) {
  Outcome outcome =
      runProgram("train " + toy("toy1") + data() +
                 " --steps 60 --lr 0.1 --log-json " + path("log"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("step  1/60 | loss 5.5"));
  EXPECT_THAT(outcome.out, HasSubstr("step 60/60 | loss"));
  EXPECT_THAT(outcome.out, HasSubstr("final loss"));
  auto log = readLog("log");
  ASSERT_EQ(log.size(), 60u);
  // Nothing is known at first: ln 256 = 5.545, give or take the initial
  // values' 0.02. Then all but one letter in eight can be predicted.
  EXPECT_NEAR(log.front()["loss"], std::log(256.0), 0.05);
  EXPECT_LT(log.back()["loss"], 2.0);
  for (int i = 0; i != 60; ++i) {
    EXPECT_EQ(log[i]["step"], i + 1);
    EXPECT_GT(log[i]["grad_norm"], 0);
    EXPECT_DOUBLE_EQ(log[i]["lr"], 0.1);
    EXPECT_GT(log[i]["ms"], 0);
    EXPECT_GT(log[i]["tokens_per_s"], 0);
    EXPECT_EQ(log[i]["comm_bytes"], 0);
    // Parameters and two moments, and the arena, at least.
    EXPECT_GT(log[i]["peak_bytes"], 3 * 256 * 257 * 4);
  }
}

// Meshes sum in another order: the gradient's relative difference is about
// 1e-6 a step, and AdamW's update is at most lr an element whatever the
// gradient, so that twenty steps of 0.01 keep the loss within 20 * 1e-2 * 1e-3;
// padding, misplaced shards or a wrong norm change it by 1e-2 and more.
TEST_F(Train, TrainsTheSameOnEveryMesh) {
  std::string options = data() + " --steps 20 --lr 0.01 --seed 5 --log-json ";
  std::vector<std::vector<nlohmann::json>> logs;
  for (const char *name : {"toy1", "toy2", "toy3"}) {
    Outcome outcome = runProgram("train " + toy(name) + options + path(name));
    ASSERT_EQ(outcome.code, 0) << outcome.out;
    logs.push_back(readLog(name));
  }
  for (int i = 0; i != 20; ++i)
    for (int mesh = 1; mesh != 3; ++mesh) {
      EXPECT_NEAR(logs[mesh][i]["loss"], double(logs[0][i]["loss"]), 2e-4);
      EXPECT_NEAR(logs[mesh][i]["grad_norm"], double(logs[0][i]["grad_norm"]),
                  2e-4);
    }
  // all_gather and reduce_scatter of 256x256, and of 258x256 with padding; 2
  // and 4 times all_reduces of 2, 256 and 1 elements.
  EXPECT_EQ(logs[1][0]["comm_bytes"], 4 * (2 * 256 * 256 + 2 * 259));
  EXPECT_EQ(logs[2][0]["comm_bytes"], 4 * (4 * 258 * 256 + 4 * 259));
}

TEST_F(Train, ALogBeginsWithWhatTheRunIs) {
  const std::string flags = "train " + toy("toy2") + data() +
                            " --lr 0.05 --save " + path("a") + " --log-json " +
                            path("log");
  ASSERT_EQ(runProgram(flags + " --steps 3").code, 0);
  ASSERT_EQ(runProgram(flags + " --steps 5 --seed 7 --resume").code, 0);
  std::vector<nlohmann::json> begun;
  std::istringstream text(read("log"));
  for (std::string line; std::getline(text, line);)
    if (auto record = nlohmann::json::parse(line); record.contains("began"))
      begun.push_back(record);
  ASSERT_EQ(begun.size(), 2u);
  for (const nlohmann::json &record : begun) {
    EXPECT_EQ(record["library"], toy("toy2"));
    EXPECT_EQ(record["ranks"], 2);
    EXPECT_EQ(record["data"]["tokens"], 1000);
    EXPECT_EQ(record["flags"]["--lr"], "0.05");
    EXPECT_EQ(record["flags"]["--beta1"], "0.9");
    EXPECT_EQ(record["model_hash"].get<std::string>().size(), 16u);
  }
  EXPECT_EQ(begun[0]["step"], 0);
  EXPECT_FALSE(begun[0].contains("from"));
  EXPECT_EQ(begun[1]["step"], 3);
  EXPECT_EQ(begun[1]["from"], path("a"));
  EXPECT_EQ(begun[1]["flags"]["--seed"], "7");
  double before = 0;
  for (const nlohmann::json &line : readLog("log")) {
    if (line["step"] == 4)
      before = 0;
    EXPECT_GT(line["seconds"], before);
    before = line["seconds"];
  }
}

TEST_F(Train, StepsZeroWritesTheSameInitialStateFromEveryMesh) {
  for (const char *name : {"toy1", "toy2", "toy3"}) {
    Outcome outcome = runProgram("train " + toy(name) + data() +
                                 " --seed 9 --steps 0 --save " + path(name));
    ASSERT_EQ(outcome.code, 0) << outcome.out;
  }
  std::vector<float> whole = tensorOf(path("toy1"), "table.weight");
  ASSERT_EQ(whole.size(), 256u * 256u);
  EXPECT_NE(whole[0], whole[1]);
  EXPECT_EQ(tensorOf(path("toy2"), "table.weight"), whole);
  EXPECT_EQ(tensorOf(path("toy3"), "table.weight"), whole);
  EXPECT_EQ(tensorOf(path("toy3"), "exp_avg.table.weight"),
            std::vector<float>(256 * 256, 0.0f));
}

TEST_F(Train, StepsZeroWithoutAFolderIsRefused) {
  const std::string train = "train " + toy("toy2") + data();
  Outcome given = runProgram(train + " --steps 0");
  EXPECT_EQ(given.code, 1);
  EXPECT_THAT(given.out, HasSubstr("--steps 0 takes no step and saves nothing; "
                                   "expected 1 at least, or --save, "));
  EXPECT_THAT(given.out, Not(HasSubstr("that number is from")));
  ASSERT_EQ(runProgram(train + " --steps 0 --save " + path("kept")).code, 0);
  Outcome kept = runProgram(train + " --load " + path("kept"));
  EXPECT_EQ(kept.code, 1);
  EXPECT_THAT(kept.out, HasSubstr("that number is from " + path("kept") +
                                  "; --steps takes some"));
}

TEST_F(Train, AResumedRunEqualsAnUninterruptedOne) {
  // With a constant rate the length of the run does not matter.
  std::string constant =
      "train " + toy("toy2") + data() + " --lr 0.05 --seed 4";
  ASSERT_EQ(runProgram(constant + " --steps 12 --save " + path("a") +
                       " --log-json " + path("a.log"))
                .code,
            0);
  ASSERT_EQ(runProgram(constant + " --steps 7 --save " + path("b")).code, 0);
  Outcome resumed = runProgram(
      "train " + toy("toy2") + data() + " --lr 0.05 --steps 12" + " --load " +
      path("b") + " --save " + path("c") + " --log-json " + path("c.log"));
  ASSERT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("going on after step 7"));
  auto uninterrupted = readLog("a.log"), rest = readLog("c.log");
  ASSERT_EQ(rest.size(), 5u);
  for (int i = 0; i != 5; ++i) {
    EXPECT_EQ(rest[i]["step"], 8 + i);
    EXPECT_EQ(rest[i]["loss"], uninterrupted[7 + i]["loss"]);
  }
  for (const char *name : {"table.weight", "exp_avg_sq.table.weight"})
    EXPECT_EQ(tensorOf(path("c"), name), tensorOf(path("a"), name));

  // And on another mesh, up to the order of sums.
  Outcome elsewhere =
      runProgram("train " + toy("toy3") + data() + " --lr 0.05 --steps 8" +
                 " --load " + path("b") + " --log-json " + path("d.log"));
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.out;
  EXPECT_NEAR(readLog("d.log")[0]["loss"], double(uninterrupted[7]["loss"]),
              1e-5);
}

TEST_F(Train, UntilStopsARunAndChangesNothingElse) {
  // Rates fall along all of --steps.
  const std::string flags = "train " + toy("toy2") + data() +
                            " --lr 0.05 --seed 4 --steps 12 --warmup 2 "
                            "--schedule cosine --eval-data " +
                            path("text.txt") + " --log-json ";
  ASSERT_EQ(runProgram(flags + path("a.log") + " --save " + path("a")).code, 0);
  EXPECT_EQ(readEnd("a.log"), "done");
  const std::string command =
      flags + path("b.log") + " --resume --save " + path("b");
  Outcome first = runProgram(command + " --until 5");
  ASSERT_EQ(first.code, 0) << first.out;
  EXPECT_THAT(first.out, HasSubstr("stopped after step 5 of 12, as --until "
                                   "says; go on with the same command"));
  EXPECT_EQ(readLog("b.log").size(), 5u);
  EXPECT_TRUE(readLog("b.log").back().contains("eval_loss"));
  EXPECT_EQ(readEnd("b.log"), "stopped");
  Outcome again = runProgram(command + " --until 5");
  EXPECT_THAT(again.out, HasSubstr("nothing to train with --until 5"));
  // One step at a time, then the rest.
  ASSERT_EQ(runProgram(command + " --until 6").code, 0);
  ASSERT_EQ(runProgram(command + " --until 100").code, 0);
  EXPECT_EQ(readEnd("b.log"), "done");
  auto whole = readLog("a.log"), parts = readLog("b.log");
  ASSERT_EQ(parts.size(), whole.size());
  for (size_t i = 0; i != whole.size(); ++i)
    for (const char *key : {"step", "loss", "grad_norm", "lr"})
      EXPECT_EQ(parts[i][key], whole[i][key]) << key << " of line " << i;
  EXPECT_EQ(parts.back()["eval_loss"], whole.back()["eval_loss"]);
  for (const char *name : {"table.weight", "exp_avg_sq.table.weight"})
    EXPECT_EQ(tensorOf(path("b"), name), tensorOf(path("a"), name));
  EXPECT_THAT(runProgram(flags + path("c.log") + " --until 5").out,
              HasSubstr("--until requires --save"));
}

TEST_F(Train, TheLogSaysHowARunEnded) {
  const std::string start =
      "train " + toy("toy2") + data() + " --log-json " + path("");
  EXPECT_EQ(runProgram(start + "a --steps 40 --lr 1e38").code, 1);
  EXPECT_EQ(readEnd("a"), "diverged");
  signalProgram(start + "b --steps 1000000", SIGTERM, path("b"));
  EXPECT_EQ(readEnd("b"), "stopped");
}

TEST_F(Train, ACheckpointBeyondTheLastStepLeavesNothingToTrain) {
  ASSERT_EQ(runProgram("train " + toy("toy1") + data() + " --steps 7 --save " +
                       path("saved"))
                .code,
            0);
  Outcome outcome = runProgram("train " + toy("toy2") + data() +
                               " --steps 7 --load " + path("saved"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("at step 7 already: nothing to train"));
}

TEST_F(Train, ASignalEndsTheRunAfterAStep) {
  std::string start = "train " + toy("toy2") + data() + " --lr 0.01 --seed 4 ";
  Outcome stopped =
      signalProgram(start + "--steps 1000000 --save " + path("saved") +
                        " --log-json " + path("log"),
                    SIGTERM, path("log"));
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.out;
  int step = readLog("log").back()["step"];
  EXPECT_THAT(stopped.out, HasSubstr("stopped by SIGTERM after step " +
                                     std::to_string(step) +
                                     " of 1000000; go "
                                     "on with --load"));
  // Its checkpoint equals that of a run of so many steps.
  ASSERT_EQ(runProgram(start + "--steps " + std::to_string(step) + " --save " +
                       path("whole"))
                .code,
            0);
  for (const char *name : {"table.weight", "exp_avg_sq.table.weight"})
    EXPECT_EQ(tensorOf(path("saved"), name), tensorOf(path("whole"), name));
}

TEST_F(Train, AStoppedRunSaysThatNothingWasSaved) {
  Outcome stopped =
      signalProgram("train " + toy("toy1") + data() +
                        " --steps 1000000 --log-json " + path("log"),
                    SIGINT, path("log"));
  EXPECT_EQ(stopped.code, 128 + SIGINT) << stopped.out;
  EXPECT_THAT(stopped.out, HasSubstr("stopped by SIGINT after step"));
  EXPECT_THAT(stopped.out, HasSubstr("nothing was saved"));
}

TEST_F(Train, ADivergedRunLeavesItsLastCheckpoint) {
  // It warms up to a rate that no model survives, and was saved before.
  Outcome outcome = runProgram("train " + toy("toy1") + data() +
                               " --steps 40 --warmup 39 --lr 1e38 --clip 1e30 "
                               "--beta1 0.999999 --save-every 1 --save " +
                               path("saved"));
  ASSERT_EQ(outcome.code, 1) << outcome.out;
  auto checkpoint = optrt::Checkpoint::open(path("saved"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_GE((*checkpoint)->state().step, 1);
  EXPECT_LT((*checkpoint)->state().step, 40);
  // From which a run can go on: its loss is finite.
  Outcome eval =
      runProgram("eval " + toy("toy1") + data() + " --load " + path("saved"));
  EXPECT_EQ(eval.code, 0) << eval.out;
  EXPECT_THAT(eval.out, testing::Not(HasSubstr("nan")));
}

TEST_F(Train, ADivergedRunNamesTheFirstResultThatIsNotFinite) {
  for (const char *name : {"toy1", "toy2"}) {
    Outcome outcome = runProgram("train " + toy(name) + data() +
                                 " --steps 40 --warmup 39 --lr 1e38 --clip "
                                 "1e30 --beta1 0.999999");
    ASSERT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("is taken again from step 0"),
                      HasSubstr("; taken again from step 0, the first result "
                                "not finite is that of "),
                      HasSubstr(", on rank ")));
  }
}

TEST_F(Train, DataThatShrinksEndsTheRunWithACheckpoint) {
  for (const char *file : {"text.txt", "held.txt"}) {
    write("held.txt", read("text.txt"));
    Outcome outcome =
        runShell("exec 2>&1; " OPTIMUS_RUN " train " + toy("toy2") + data() +
                 " --steps 1000000 --eval-data " + path("held.txt") +
                 " --eval-every 3 --save " + path("saved") + " --log-json " +
                 path("log") + " & run=$!; while ! [ -s " + path("log") +
                 " ]; do sleep 0.01; done; truncate -s 500 " + path(file) +
                 "; wait $run");
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out,
                HasSubstr(path(file) + " changed while it was read: it ends "));
    int step = readLog("log").back()["step"];
    EXPECT_THAT(outcome.out,
                HasSubstr("go on from step " + std::to_string(step) +
                          " with --load " + path("saved")));
    auto checkpoint = optrt::Checkpoint::open(path("saved"));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ((*checkpoint)->state().step, step);
    std::remove(path("log").c_str());
    // For the other one.
    ProgramTest::TearDown();
    ProgramTest::SetUp();
  }
}

TEST_F(Train, DataThatIsWrittenToIsSaid) {
  Outcome outcome =
      runShell("exec 2>&1; " OPTIMUS_RUN " train " + toy("toy2") + data() +
               " --steps 1000000 --log-json " + path("log") +
               " & run=$!; while ! [ -s " + path("log") +
               " ]; do sleep 0.01; done; echo more >> " + path("text.txt") +
               "; sleep 0.1; kill $run; wait $run");
  EXPECT_THAT(outcome.out, HasSubstr("warning: " + path("text.txt") +
                                     " was written to since the run began"));
  EXPECT_THAT(outcome.out, HasSubstr("stopped by SIGTERM"));
}

TEST_F(Train, EvalIsTheMeanOverAllWindowsOnEveryMesh) {
  // 1000 tokens make 124 windows of 8: 31 full batches of 4. 45 make 5, the
  // last batch of which holds one.
  write("short.txt", std::string(20, 'x') + std::string(25, 'y'));
  for (const char *file : {"text.txt", "short.txt"}) {
    std::vector<double> losses;
    for (const char *name : {"toy1", "toy2", "toy3"}) {
      Outcome outcome =
          runProgram("eval " + toy(name) + " --json --data " + path(file));
      ASSERT_EQ(outcome.code, 0) << outcome.out;
      auto report = outcome.json();
      EXPECT_EQ(report["tokens"], file == std::string("text.txt") ? 992 : 40);
      losses.push_back(report["loss"]);
    }
    EXPECT_NEAR(losses[0], std::log(256.0), 0.05);
    EXPECT_NEAR(losses[1], losses[0], 1e-5);
    EXPECT_NEAR(losses[2], losses[0], 1e-5);
  }
}

TEST_F(Train, EvaluatesWhileTraining) {
  Outcome outcome = runProgram(
      "train " + toy("toy2") + data() + " --steps 25 --lr 0.05 --eval-data " +
      path("text.txt") + " --eval-every 10 --log-json " + path("log") +
      " --save " + path("end"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  auto log = readLog("log");
  for (int i = 0; i != 25; ++i)
    EXPECT_EQ(log[i].contains("eval_loss"), i == 9 || i == 19 || i == 24) << i;
  Outcome eval = runProgram("eval " + toy("toy1") + data() + " --json --load " +
                            path("end"));
  ASSERT_EQ(eval.code, 0) << eval.out;
  EXPECT_NEAR(eval.json()["loss"], double(log[24]["eval_loss"]), 1e-5);
}

/// A run whose held-out loss soon rises: its text goes the other way.
class EarlyStop : public ProgramTest {
protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::string text = read("text.txt");
    write("held.txt", std::string(text.rbegin(), text.rend()));
  }
  std::string train(const std::string &name) const {
    return "train " + toy("toy2") + data() + " --eval-data " +
           path("held.txt") + " --eval-every 2 --steps 60 --lr 0.1 --save " +
           path(name) + " --keep-best " + path(name + "-best") +
           " --log-json " + path(name + ".log") + " ";
  }
  /// The step of the least held-out loss.
  int64_t bestOf(const std::string &name) const {
    double least = INFINITY;
    int64_t step = 0;
    for (const nlohmann::json &line : readLog(name + ".log"))
      if (line.contains("eval_loss") && line["eval_loss"] < least) {
        least = line["eval_loss"];
        step = line["step"];
      }
    return step;
  }
  optrt::TrainingState state(const std::string &name) const {
    auto checkpoint = optrt::Checkpoint::open(path(name));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    return checkpoint.ok() ? (*checkpoint)->state() : optrt::TrainingState();
  }
};

TEST_F(EarlyStop, PatienceEndsARunAndTheBestIsKept) {
  Outcome outcome = runProgram(train("a") + "--patience 3");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const int64_t best = bestOf("a");
  const int64_t last = best + 3 * 2;
  ASSERT_LT(last, 60);
  EXPECT_EQ(readEnd("a.log"), "patience");
  EXPECT_EQ(readLog("a.log").size(), static_cast<size_t>(last));
  EXPECT_THAT(outcome.out, HasSubstr("3 evaluations found no better loss"));
  EXPECT_THAT(outcome.out, HasSubstr("is that of step " + std::to_string(best) +
                                     ", in " + path("a-best")));
  EXPECT_EQ(state("a").step, last);
  EXPECT_EQ(state("a").best->evaluationsSince, 3);
  EXPECT_EQ(state("a-best").step, best);
  EXPECT_EQ(state("a-best").best->step, best);
  // It is the state after that step.
  Outcome eval =
      runProgram("eval " + toy("toy2") + " --data " + path("held.txt") +
                 " --json --load " + path("a-best"));
  ASSERT_EQ(eval.code, 0) << eval.out;
  EXPECT_DOUBLE_EQ(eval.json()["loss"], state("a-best").best->loss);
}

TEST_F(EarlyStop, PatienceGoesOnWithTheRun) {
  ASSERT_EQ(runProgram(train("a") + "--patience 3").code, 0);
  const int64_t last = state("a").step;
  // Stopped between the best and the end.
  const std::string until = "--until " + std::to_string(last - 2);
  ASSERT_EQ(runProgram(train("b") + "--patience 3 " + until).code, 0);
  EXPECT_EQ(readEnd("b.log"), "stopped");
  ASSERT_EQ(runProgram(train("b") + "--patience 3 --resume").code, 0);
  EXPECT_EQ(readEnd("b.log"), "patience");
  EXPECT_EQ(state("b"), state("a"));
  EXPECT_EQ(state("b-best"), state("a-best"));
}

TEST_F(EarlyStop, WhatIsKeptIsNotReplacedUnasked) {
  ASSERT_EQ(runProgram(train("a") + "--until 2").code, 0);
  std::filesystem::remove_all(path("a"));
  Outcome outcome = runProgram(train("a"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("--overwrite lets it"));
  EXPECT_EQ(runProgram(train("a") + "--until 2 --overwrite").code, 0);
  for (const char *flags : {"--patience 2", "--keep-best x --save y"}) {
    outcome =
        runProgram("train " + toy("toy2") + data() + " --steps 3 " + flags);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.out, HasSubstr("--eval-every"));
  }
  outcome = runProgram(train("a") + "--resume --save-every 2 --overwrite");
  EXPECT_EQ(outcome.code, 1);
  outcome = runProgram("train " + toy("toy2") + data() + " --eval-data " +
                       path("held.txt") + " --eval-every 1 --save " +
                       path("c") + " --keep-best " + path("c"));
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("--keep-best"));
}

TEST_F(Train, ThreadsAndOrdersAreChosen) {
  Outcome outcome = runProgram("train " + toy("toy2") + data() +
                               " --steps 1 --threads-per-rank 1 --order "
                               "sequential --seed 3");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("2 ranks (local), 1 thread each"));
  EXPECT_THAT(outcome.out, HasSubstr("sequential, seed 3"));
}

} // namespace
