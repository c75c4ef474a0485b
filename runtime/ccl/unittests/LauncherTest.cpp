//===- LauncherTest.cpp - Who started this process ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

using namespace optrt;
using testing::AllOf;
using testing::HasSubstr;

namespace {

using Environment = std::map<std::string, std::string>;

StatusOr<Launcher> find(const Environment &environment) {
  return findLauncher([&](const char *name) -> const char * {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

/// The back-end that is chosen in an environment, or why there is none.
std::string backend(const Environment &environment,
                    const std::string &asked = "") {
  StatusOr<Launcher> launcher = find(environment);
  if (!launcher.ok())
    return launcher.status().message();
  StatusOr<std::string> chosen = chooseBackend(*launcher, asked);
  return chosen.ok() ? *chosen : chosen.status().message();
}

const Environment kOpenMpi = {
    {"OMPI_COMM_WORLD_SIZE", "4"},       {"OMPI_COMM_WORLD_RANK", "3"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"PMIX_NAMESPACE", "77.1"},          {"PMIX_RANK", "3"}};
const Environment kHydra = {
    {"PMI_SIZE", "3"}, {"PMI_RANK", "1"}, {"MPI_LOCALRANKID", "1"}};
const Environment kSlurm = {
    {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "17"},
    {"SLURM_NTASKS", "4"},  {"SLURM_PROCID", "1"},
    {"SLURM_LOCALID", "0"}, {"SLURM_STEP_NODELIST", "node[03,05-07]"}};
const Environment kTorchrun = {{"WORLD_SIZE", "8"},
                               {"RANK", "5"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "none"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kPmix = {{"PMIX_RANK", "1"},
                           {"PMIX_NAMESPACE", "job"},
                           {"PMIX_SERVER_URI41", "job.0;tcp4://127.0.0.1:1"}};
const Environment kByHand = {{"OPTIMUS_RANK", "2"},
                             {"OPTIMUS_RANKS", "3"},
                             {"OPTIMUS_RENDEZVOUS", "node1:4711"}};

Environment with(Environment environment, const Environment &more) {
  for (const auto &[name, value] : more)
    environment[name] = value;
  return environment;
}
Environment without(Environment environment, const char *name) {
  environment.erase(name);
  return environment;
}

TEST(Launcher, NobodyIsFoundWhereNobodyIs) {
  for (const Environment &environment : std::vector<Environment>{
           {},
           // Of one process.
           {{"WORLD_SIZE", "1"}, {"RANK", "0"}},
           {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}},
           {{"SLURM_STEP_ID", "0"},
            {"SLURM_NTASKS", "1"},
            {"SLURM_PROCID", "0"}},
           {{"SLURM_STEP_ID", "0"},
            {"SLURM_NTASKS", "1"},
            {"SLURM_PROCID", "0"},
            {"PMIX_RANK", "0"}},
           // The script of sbatch, and a shell of salloc.
           {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
           {{"SLURM_NTASKS", "4"},
            {"SLURM_PROCID", "0"},
            {"SLURM_STEP_ID", "4294967291"}},
           {{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}},
           // A shell of srun in a larger allocation.
           {{"SLURM_STEP_ID", "0"},
            {"SLURM_STEP_NUM_TASKS", "1"},
            {"SLURM_NTASKS", "4"},
            {"SLURM_PROCID", "0"}},
           // Half of the variables needed, and nonsense of others.
           {{"WORLD_SIZE", "2"}},
           {{"WORLD_SIZE", "earth"}, {"RANK", "0"}}}) {
    StatusOr<Launcher> launcher = find(environment);
    ASSERT_TRUE(launcher.ok()) << launcher.status().message();
    EXPECT_TRUE(launcher->isAlone()) << launcher->name;
    EXPECT_TRUE(launcher->isFirst());
    EXPECT_EQ(backend(environment), "local");
  }
}

TEST(Launcher, EachSaysWhichOfHowMany) {
  struct Case {
    Environment environment;
    const char *name;
    std::optional<int> size;
    int rank;
    std::optional<int> localRank;
  };
  for (const Case &one : std::vector<Case>{
           {kOpenMpi, "mpirun", 4, 3, 1},
           {with(kSlurm, kOpenMpi), "mpirun", 4, 3, 1},
           {kHydra, "an mpiexec of MPICH or Intel MPI", 3, 1, 1},
           {without(kHydra, "MPI_LOCALRANKID"),
            "an mpiexec of MPICH or Intel MPI",
            3,
            1,
            {}},
           // Hydra starts its proxies as a step of Slurm's.
           {with(kSlurm, kHydra), "an mpiexec of MPICH or Intel MPI", 3, 1, 1},
           {{{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "1"}},
            "MVAPICH2's mpirun",
            2,
            1,
            {}},
           {kSlurm, "srun", 4, 1, 0},
           {with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), "srun", 4, 1,
            0},
           {with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "2"}}), "srun", 2, 1, 0},
           // A torchrun on each node, which srun starts.
           {with(kSlurm, kTorchrun), "torchrun", 8, 5, 1},
           {without(kTorchrun, "TORCHELASTIC_RUN_ID"), "torchrun", 8, 5, 1},
           {kPmix, "a launcher that speaks PMIx", {}, 1, {}},
           {with(kTorchrun, kByHand), "--rank", 3, 2, {}}}) {
    StatusOr<Launcher> launcher = find(one.environment);
    ASSERT_TRUE(launcher.ok()) << launcher.status().message();
    EXPECT_EQ(launcher->name, one.name);
    EXPECT_EQ(launcher->size, one.size) << one.name;
    EXPECT_EQ(launcher->rank, one.rank) << one.name;
    EXPECT_EQ(launcher->localRank, one.localRank) << one.name;
    EXPECT_FALSE(launcher->isAlone()) << one.name;
    EXPECT_FALSE(launcher->isFirst()) << one.name;
  }
}

TEST(Launcher, SaysWhereRanksMeet) {
  auto point = [](const Environment &environment) {
    return find(environment)->meetingPoint;
  };
  EXPECT_EQ(point(kByHand), (MeetingPoint{"node1", 4711, 1}));
  // torchrun itself listens at the port that it names, where it says so.
  EXPECT_EQ(point(kTorchrun)->host, "node1");
  EXPECT_EQ(point(kTorchrun)->port, 29501);
  EXPECT_EQ(point(without(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE"))->port,
            29500);
  EXPECT_FALSE(point(without(kTorchrun, "MASTER_ADDR")));
  EXPECT_FALSE(point(with(kTorchrun, {{"MASTER_PORT", "70000"}})));
  EXPECT_EQ(point(kSlurm)->host, "node03");
  EXPECT_GE(point(kSlurm)->port, 61440);
  EXPECT_LE(point(kSlurm)->port + point(kSlurm)->numPorts, 65536);
  EXPECT_NE(point(kSlurm), point(with(kSlurm, {{"SLURM_STEP_ID", "1"}})));
  EXPECT_EQ(point(with(kSlurm, {{"SLURM_STEP_NODELIST", "me"},
                                {"SLURMD_NODENAME", "me"}}))
                ->host,
            "127.0.0.1");
  EXPECT_FALSE(point(without(kSlurm, "SLURM_STEP_NODELIST")));
  // Open MPI's mpirun does not say on which host rank 0 is.
  EXPECT_FALSE(point(kOpenMpi));
  EXPECT_EQ(point(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}))->host,
            "127.0.0.1");
  EXPECT_FALSE(point(kHydra));
  // MPICH's mpiexec tells when it is asked.
  EXPECT_EQ(find(with(kHydra, {{"PMI_FD", "7"}}))->pmiSocket, 7);
  EXPECT_FALSE(find(kHydra)->pmiSocket);
  EXPECT_FALSE(find(with(kHydra, {{"PMI_FD", "7"},
                                  {"OPTIMUS_RENDEZVOUS", "10.0.0.1:5"}}))
                   ->pmiSocket);
  // What the user says counts.
  for (const Environment &environment : {kOpenMpi, kHydra, kSlurm, kTorchrun})
    EXPECT_EQ(point(with(environment, {{"OPTIMUS_RENDEZVOUS", "10.0.0.1:5"}})),
              (MeetingPoint{"10.0.0.1", 5, 1}));
}

TEST(Launcher, ReadsListsOfNodes) {
  for (const auto &[list, first] : std::map<std::string, std::string>{
           {"node1", "node1"},
           {"node1,node2", "node1"},
           {"node[001-004,007],gpu1", "node001"},
           {"node[7,9]", "node7"},
           {"rack[2-3]n[01-16].x,a", "rack2n01.x"},
           {"broken[1-2", "broken1"}})
    EXPECT_EQ(firstHostOf(list), first) << list;
}

// The matrix of docs/launchers.md.
TEST(Launcher, ChoosesWhatWorks) {
  const Environment meeting = {{"OPTIMUS_RENDEZVOUS", "node1:4711"}};
  EXPECT_EQ(backend(kOpenMpi), "mpi");
  EXPECT_EQ(backend(kHydra), "mpi");
  EXPECT_EQ(backend(with(kHydra, meeting)), "tcp");
  EXPECT_EQ(backend(with(kHydra, {{"PMI_FD", "7"}})), "mpi");
  EXPECT_EQ(backend(with(kHydra, {{"PMI_FD", "7"}}), "tcp"), "tcp");
  EXPECT_EQ(backend(kPmix), "mpi");
  EXPECT_EQ(backend(with(kSlurm, kPmix)), "mpi");
  EXPECT_EQ(backend(kSlurm), "tcp");
  EXPECT_EQ(backend(kSlurm, "mpi"), "mpi");
  EXPECT_EQ(backend(kTorchrun), "tcp");
  EXPECT_EQ(backend(kByHand), "tcp");
  EXPECT_EQ(backend(with(kOpenMpi, meeting), "tcp"), "tcp");
  EXPECT_EQ(backend({}, "mpi"), "mpi");
  // Whoever insists takes variables for left over.
  EXPECT_EQ(backend(kSlurm, "local"), "local");
  EXPECT_EQ(backend(kTorchrun, "local"), "local");
}

TEST(Launcher, WhatCannotWorkIsRefusedByName) {
  EXPECT_THAT(backend(kTorchrun, "mpi"),
              AllOf(HasSubstr("torchrun started 8 processes"),
                    HasSubstr("use --backend tcp, or `mpirun -n 8")));
  EXPECT_THAT(backend(kOpenMpi, "local"),
              HasSubstr("mpirun started 4 processes; leave mpirun or"));
  EXPECT_THAT(backend(kByHand, "local"),
              HasSubstr("but --ranks is 3; leave --rank"));
  EXPECT_THAT(backend({}, "tcp"),
              AllOf(HasSubstr("--backend tcp was asked for"),
                    HasSubstr("torchrun, srun or `mpirun"),
                    HasSubstr("--rank R and --ranks N")));
  // Nothing says where they meet.
  EXPECT_THAT(backend(without(kSlurm, "SLURM_STEP_NODELIST")),
              AllOf(HasSubstr("srun started 4 processes"),
                    HasSubstr("each would do the whole job by itself"),
                    HasSubstr("--rendezvous HOST:PORT"),
                    HasSubstr("mpirun -n 4"), HasSubstr("--backend local")));
  EXPECT_THAT(backend(kHydra, "tcp"), HasSubstr("--rendezvous HOST:PORT"));
  EXPECT_THAT(backend(kOpenMpi, "tcp"), HasSubstr("--rendezvous HOST:PORT"));
  EXPECT_THAT(backend(without(kByHand, "OPTIMUS_RENDEZVOUS")),
              HasSubstr("--rendezvous HOST:PORT"));
  // Left over from a server that is gone.
  EXPECT_THAT(backend(without(kPmix, "PMIX_SERVER_URI41")),
              AllOf(HasSubstr("a launcher that speaks PMIx"),
                    HasSubstr("mpirun -n N")));
  // Where, but not as which of how many.
  EXPECT_THAT(backend({{"OPTIMUS_RENDEZVOUS", "node1:4711"}}),
              HasSubstr("add --rank R --ranks N"));
}

TEST(Launcher, VariablesThatMakeNoSenseAreRefused) {
  for (const Environment &wrong : std::vector<Environment>{
           {{"OMPI_COMM_WORLD_SIZE", "4"}},
           {{"OMPI_COMM_WORLD_SIZE", "x"}, {"OMPI_COMM_WORLD_RANK", "0"}},
           {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}}})
    EXPECT_THAT(find(wrong).status().message(),
                HasSubstr("not as which of how many"));
  EXPECT_THAT(find(without(kByHand, "OPTIMUS_RANKS")).status().message(),
              HasSubstr("with R from 0 to N - 1, found `2` and ``"));
  EXPECT_THAT(
      find(with(kByHand, {{"OPTIMUS_RANK", "3"}})).status().message(),
      HasSubstr("expected --rank (OPTIMUS_RANK) R and --ranks (OPTIMUS_RANKS) "
                "N with R from 0 to N - 1, found `3` and `3`"));
  // Ranks from 1 on: the last would train the whole model by itself.
  for (const Environment &wrong :
       std::vector<Environment>{{{"RANK", "2"}, {"WORLD_SIZE", "2"}},
                                {{"RANK", "one"}, {"WORLD_SIZE", "2"}},
                                {{"RANK", "0"}, {"WORLD_SIZE", "earth"}}}) {
    Environment all =
        with(wrong, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}});
    EXPECT_THAT(backend(all), AllOf(HasSubstr("not as which of how many"),
                                    HasSubstr("start it with torchrun")));
    EXPECT_TRUE(find(all)->isFirst()) << "it says so";
    EXPECT_EQ(backend(all, "local"), "local");
  }
  for (const char *point :
       {"node1", ":17", "node1:", "node1:0", "node1:70000", "node1:1x"})
    EXPECT_THAT(backend(with(kByHand, {{"OPTIMUS_RENDEZVOUS", point}})),
                HasSubstr("expected HOST:PORT"))
        << point;
}

} // namespace
