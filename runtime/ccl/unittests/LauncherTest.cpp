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

TEST(Launcher, NobodyIsFoundWhereNobodyIs) {
  for (const Environment &environment : std::vector<Environment>{
           {},
           // Of one process.
           {{"WORLD_SIZE", "1"}, {"RANK", "0"}},
           {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}},
           {{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}},
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
           // Half of what is needed, and nonsense that is not for us.
           {{"WORLD_SIZE", "2"}},
           {{"WORLD_SIZE", "earth"}, {"RANK", "0"}}}) {
    StatusOr<Launcher> launcher = find(environment);
    ASSERT_TRUE(launcher.ok()) << launcher.status().message();
    EXPECT_EQ(launcher->kind, Launcher::Kind::None) << launcher->name;
    EXPECT_TRUE(launcher->isFirst());
    EXPECT_TRUE(checkLauncher(*launcher).ok());
  }
}

TEST(Launcher, OpenMpiIsTaken) {
  // Within an allocation of Slurm's too.
  StatusOr<Launcher> launcher = find({{"OMPI_COMM_WORLD_SIZE", "4"},
                                      {"OMPI_COMM_WORLD_RANK", "3"},
                                      {"PMIX_RANK", "3"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_NTASKS", "2"},
                                      {"SLURM_PROCID", "1"}});
  ASSERT_TRUE(launcher.ok());
  EXPECT_EQ(launcher->kind, Launcher::Kind::OpenMpi);
  EXPECT_EQ(launcher->size, 4);
  EXPECT_EQ(launcher->rank, 3);
  EXPECT_FALSE(launcher->isFirst());
  EXPECT_TRUE(checkLauncher(*launcher).ok());
  for (const Environment &wrong : std::vector<Environment>{
           {{"OMPI_COMM_WORLD_SIZE", "4"}},
           {{"OMPI_COMM_WORLD_SIZE", "x"}, {"OMPI_COMM_WORLD_RANK", "0"}},
           {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}}})
    EXPECT_THAT(find(wrong).status().message(),
                HasSubstr("not as which of how many"));
}

TEST(Launcher, OthersAreNamedAndRefused) {
  struct Case {
    Environment environment;
    const char *name;
    std::optional<int> size;
  };
  for (const Case &one : std::vector<Case>{
           {{{"SLURM_STEP_ID", "0"},
             {"SLURM_NTASKS", "4"},
             {"SLURM_PROCID", "1"},
             {"PMIX_RANK", "1"}},
            "srun",
            4},
           {{{"PMI_SIZE", "3"}, {"PMI_RANK", "1"}}, "MPICH", 3},
           {{{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "1"}},
            "MVAPICH2",
            2},
           {{{"WORLD_SIZE", "8"}, {"RANK", "1"}, {"LOCAL_RANK", "1"}},
            "torchrun",
            8},
           {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "job"}}, "PMIx", {}}}) {
    StatusOr<Launcher> launcher = find(one.environment);
    ASSERT_TRUE(launcher.ok());
    EXPECT_EQ(launcher->kind, Launcher::Kind::Other) << one.name;
    EXPECT_EQ(launcher->size, one.size);
    EXPECT_FALSE(launcher->isFirst());
    Status status = checkLauncher(*launcher);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(one.name), HasSubstr("use `mpirun -n "),
                      HasSubstr("--backend local")));
  }
}

} // namespace
