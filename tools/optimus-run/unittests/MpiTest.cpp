//===- MpiTest.cpp - One rank a process -----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include <csignal>

using testing::HasSubstr;
using testing::Not;

namespace {

using Mpi = OverMpi<ProgramTest>;

TEST_F(Mpi, TrainsBitForBitLikeThreads) {
  for (int ranks : {2, 3}) {
    std::string name = "toy" + std::to_string(ranks);
    std::string arguments =
        "train " + toy(name) + data() +
        " --steps 15 --lr 0.05 --threads-per-rank 1 --log-json ";
    Outcome local = runProgram(arguments + path("local.log") + " --save " +
                               path(name + "-local"));
    ASSERT_EQ(local.code, 0) << local.out;
    Outcome mpi = runProgram(arguments + path("mpi.log") + " --save " +
                                 path(name + "-mpi"),
                             mpirun(ranks));
    ASSERT_EQ(mpi.code, 0) << mpi.out;
    EXPECT_THAT(mpi.out, HasSubstr(std::to_string(ranks) + " ranks (mpi)"));
    auto localLog = readLog("local.log"), mpiLog = readLog("mpi.log");
    ASSERT_EQ(mpiLog.size(), 15u);
    for (int i = 0; i != 15; ++i)
      for (const char *key : {"loss", "grad_norm", "comm_bytes"})
        EXPECT_EQ(mpiLog[i][key], localLog[i][key]) << key << " of " << i;
    for (const char *file : {"model.safetensors", "optimizer.safetensors"}) {
      std::string bytes = read(name + "-local/" + file);
      EXPECT_GT(bytes.size(), 1000u);
      EXPECT_TRUE(read(name + "-mpi/" + file) == bytes) << file;
    }
  }
}

TEST_F(Mpi, GoesOnFromACheckpointAndEvaluates) {
  ASSERT_EQ(runProgram("train " + toy("toy1") + data() + " --steps 4 --save " +
                       path("saved"))
                .code,
            0);
  Outcome train =
      runProgram("train " + toy("toy2") + data() + " --steps 6 --load " +
                     path("saved") + " --save " + path("more"),
                 mpirun(2));
  ASSERT_EQ(train.code, 0) << train.out;
  EXPECT_THAT(train.out, HasSubstr("going on after step 4"));
  Outcome one = runProgram("eval " + toy("toy1") + data() + " --json --load " +
                           path("more"));
  Outcome two = runProgram("eval " + toy("toy2") + data() + " --json --load " +
                               path("more"),
                           mpirun(2));
  ASSERT_EQ(two.code, 0) << two.out;
  EXPECT_NEAR(one.json()["loss"], double(two.json()["loss"]), 1e-5);
}

// One process gets the signal; all must end after the same step.
TEST_F(Mpi, ASignalToOneRankStopsAll) {
  std::string train = "train " + toy("toy2") + data() +
                      " --steps 1000000 --threads-per-rank 1 --save " +
                      path("saved") + " --log-json " + path("log");
  std::string first = mpirun(1) + " " OPTIMUS_RUN " " + train +
                      " : -n 1 sh -c 'echo $$ > " + path("pid") +
                      "; exec \"$0\" \"$@\"'";
  Outcome stopped =
      signalProgram(train, SIGTERM, path("log"), first, path("pid"));
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.out;
  int step = readLog("log").back()["step"];
  EXPECT_THAT(stopped.out, HasSubstr("stopped by SIGTERM after step " +
                                     std::to_string(step) + " "));
  Outcome resumed =
      runProgram("train " + toy("toy1") + data() + " --load " + path("saved") +
                 " --steps " + std::to_string(step + 1));
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_THAT(resumed.out,
              HasSubstr("going on after step " + std::to_string(step)));
}

// Slurm sends it to mpirun, and mpirun to all.
TEST_F(Mpi, ASignalThatMpirunHandsOnStopsAll) {
  std::string train = "train " + toy("toy2") + data() +
                      " --steps 1000000 --threads-per-rank 1 --save " +
                      path("saved") + " --log-json " + path("log");
  Outcome stopped = signalProgram(train, SIGUSR1, path("log"), mpirun(2));
  EXPECT_EQ(stopped.code, 128 + SIGUSR1) << stopped.out;
  int step = readLog("log").back()["step"];
  EXPECT_THAT(stopped.out, HasSubstr("stopped by SIGUSR1 after step " +
                                     std::to_string(step) + " "));
  EXPECT_EQ(nlohmann::json::parse(read("saved/state.json"))["step"], step);
}

TEST_F(Mpi, NumberOfRanksMustBeTheMeshs) {
  Outcome outcome = runProgram("train " + toy("toy3") + data(), mpirun(2));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("compiled for a mesh of 3 = 3 ranks, but "
                                     "MPI started 2"));
  // Said once, not by every rank.
  std::size_t first = outcome.out.find("optimus-run: error");
  EXPECT_EQ(outcome.out.find("optimus-run: error", first + 1),
            std::string::npos)
      << outcome.out;
}

TEST_F(Mpi, RanksMustOpenTheSameLibrary) {
  Outcome outcome = runProgram("train " + toy("toy2") + data() +
                                   " : -n 1 " OPTIMUS_RUN " train " +
                                   toy("toy-source") + data(),
                               mpirun(1));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("another model library than rank 0"));
}

// The sources are the same, and what was made of them is not.
TEST_F(Mpi, RanksMustStartTheSameCollectives) {
  Outcome outcome = runProgram("train " + toy("toy2") + data() +
                                   " : -n 1 " OPTIMUS_RUN " train " +
                                   toy("toy-order") + data(),
                               mpirun(1));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(
      outcome.out,
      HasSubstr("ranks 0 and 1 start different collectives: number 3 of "
                "train_step on mesh axis row is table "
                "(reduce_scatter), command "));
  EXPECT_THAT(outcome.out, HasSubstr("on rank 0, and table (all_reduce), "));
}

TEST_F(Mpi, OneRankThatFailsEndsTheJob) {
  Outcome outcome =
      runProgram("train " + toy("toy-rank") + data() + " --steps 5",
                 failingAt("3:watch_step") + " " + mpirun(2));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("rank 1, clock (watch_step)"));
}

TEST_F(Mpi, BenchesCollectives) {
  Outcome outcome = runProgram("bench --comm --max-bytes 65536 --profile " +
                                   path("machine.json"),
                               mpirun(3));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  auto profile = nlohmann::json::parse(read("machine.json"));
  ASSERT_EQ(profile["comm"].size(), 5u);
  EXPECT_EQ(profile["comm"][0]["backend"], "mpi");
  EXPECT_EQ(profile["comm"][0]["ranks"], 3);
}

TEST_F(Mpi, SaysWhenNothingOverlaps) {
  std::string bench = "bench " + toy("toy2") + " --steps 2";
  std::string sentence = "communication moves only while a rank starts";
  Outcome with = runProgram(bench, mpirun(2));
  ASSERT_EQ(with.code, 0) << with.out;
  EXPECT_THAT(with.out, Not(HasSubstr(sentence)));
  Outcome without = runProgram(bench, "OPTIMUS_PROGRESS_THREAD=0 " + mpirun(2));
  ASSERT_EQ(without.code, 0) << without.out;
  EXPECT_THAT(without.out, HasSubstr(sentence));
}

TEST_F(Mpi, VariablesThatMakeNoSenseAreRefused) {
  Outcome outcome = runProgram("bench " + toy("toy2"),
                               "OPTIMUS_MPI_BROADCAST=chains " + mpirun(2));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("OPTIMUS_MPI_BROADCAST is `chains`, "
                                     "expected chain or library"));
}

TEST_F(Mpi, MissingDataIsReportedOnce) {
  Outcome outcome = runProgram(
      "train " + toy("toy2") + " --data " + path("none.txt"), mpirun(2));
  EXPECT_EQ(outcome.code, 1);
  std::size_t first = outcome.out.find("none.txt");
  ASSERT_NE(first, std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("optimus-run: error", first), std::string::npos)
      << outcome.out;
}

} // namespace
