//===- ErrorsTest.cpp - What users and we can do wrong --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "optimus-support/Hash.h"

#include <filesystem>
#include <fstream>
#include <iterator>

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class Errors : public ProgramTest {
protected:
  /// Runs the program and expects one message with these texts.
  void expect(int code, const std::string &arguments,
              const std::vector<std::string> &texts) {
    Outcome outcome = runProgram(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.out;
    for (const std::string &text : texts)
      EXPECT_THAT(outcome.out, HasSubstr(text));
    EXPECT_THAT(outcome.out, Not(HasSubstr("terminate called")));
  }
  std::string train(const std::string &name) {
    return "train " + toy(name) + data() + " --steps 5 ";
  }
};

TEST_F(Errors, MissingLibrary) {
  expect(1, "train " + path("none.so") + data(),
         {"model library", "none.so", "does not exist"});
}

TEST_F(Errors, LibraryThatIsNoSharedObject) {
  expect(1, "inspect " + path("text.txt"),
         {"text.txt", "cannot be opened as a shared library",
          "optimus-compile makes a model library"});
}

// dlopen of half a library is a bus error.
TEST_F(Errors, LibraryThatWasCutShort) {
  std::ifstream whole(toy("toy1"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  for (std::size_t length : {bytes.size() / 2, bytes.size() - 1}) {
    write("cut.so", bytes.substr(0, length));
    expect(1, "train " + path("cut.so") + data(), {"cut.so", "cut short"});
  }
}

TEST_F(Errors, SharedObjectThatIsNoModel) {
  // The program itself is at hand; a library that surely is there:
  std::string libm = "libm.so.6";
  for (const char *folder : {"/lib/x86_64-linux-gnu", "/lib64", "/usr/lib",
                             "/lib/aarch64-linux-gnu", "/lib"})
    if (std::filesystem::exists(std::string(folder) + "/libm.so.6")) {
      libm = std::string(folder) + "/libm.so.6";
      break;
    }
  for (const std::string &command :
       {"inspect " + libm, "train " + libm + data()})
    expect(1, command, {"no model library", "no section .optimus.manifest"});
}

TEST_F(Errors, LibraryOfAnotherVersion) {
  expect(1, train("toy-abi"), {"compiled for another version"});
}

TEST_F(Errors, LibraryForAnotherProcessor) {
  expect(1, train("toy-feature"), {"needs avx512nosuch", "lacks"});
}

TEST_F(Errors, MissingData) {
  expect(1, "train " + toy("toy2") + " --data " + path("none.txt"),
         {"none.txt"});
}

TEST_F(Errors, DataShorterThanAWindow) {
  write("short.txt", "12345678");
  expect(1, "eval " + toy("toy1") + " --data " + path("short.txt"),
         {"short.txt", "8"});
}

TEST_F(Errors, TruncatedBinaryData) {
  write("odd.bin", std::string(101, '\0'));
  expect(1, "train " + toy("toy1") + " --data " + path("odd.bin"), {"odd.bin"});
}

TEST_F(Errors, TokenBeyondTheVocabulary) {
  write("large.bin", std::string(100, '\1'));
  expect(1, "train " + toy("toy1") + " --data " + path("large.bin"),
         {"large.bin", "257"});
}

TEST_F(Errors, UnwritableSave) {
  expect(1, train("toy2") + "--save /proc/none/here", {"--save", "/proc/none"});
}

TEST_F(Errors, SaveOverAFolderWithSomethingElse) {
  std::filesystem::create_directory(path("precious"));
  write("precious/thesis.tex", "x");
  expect(1, train("toy2") + "--save " + path("precious"),
         {"--save", "precious"});
  EXPECT_EQ(read("precious/thesis.tex"), "x");
}

TEST_F(Errors, UnwritableLog) {
  expect(1, train("toy2") + "--log-json " + path("no/such/folder"),
         {"--log-json", "no/such/folder"});
}

TEST_F(Errors, MissingCheckpoint) {
  expect(1, train("toy2") + "--load " + path("nothing"), {"nothing"});
}

TEST_F(Errors, DamagedCheckpoint) {
  ASSERT_EQ(runProgram(train("toy1") + "--save " + path("saved")).code, 0);
  std::string model = read("saved/model.safetensors");
  model[model.size() / 2] ^= 1;
  write("saved/model.safetensors", model);
  expect(1, train("toy2") + "--load " + path("saved"), {"model.safetensors"});
}

// As a run wrote it that had diverged: whole, but of no use.
TEST_F(Errors, CheckpointThatIsNotFinite) {
  using namespace optimus_support;
  ASSERT_EQ(runProgram(train("toy1") + "--save " + path("saved")).code, 0);
  std::string model = read("saved/model.safetensors");
  // The highest byte of the last float, and its lower neighbour.
  model.replace(model.size() - 2, 2, "\xc0\x7f");
  write("saved/model.safetensors", model);
  auto state = nlohmann::json::parse(read("saved/state.json"));
  // Its data is one piece.
  auto &record = state["files"]["model.safetensors"];
  const size_t dataBegin = record["header"]["size"];
  record["pieces"]["xxh64"] = hashToHex(hash64(model.substr(dataBegin)));
  state.erase("xxh64");
  state["xxh64"] = hashToHex(hash64(state.dump()));
  write("saved/state.json", state.dump());
  for (std::string command : {"train ", "eval "}) {
    Outcome outcome =
        runProgram(command + toy("toy2") + data() + " --load " + path("saved"));
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("saved/model.safetensors: the tensor "
                                "table.bias has an element that is not finite"),
                      Not(HasSubstr("--lr"))));
  }
}

TEST_F(Errors, UnknownOptionAndValues) {
  expect(1, train("toy1") + "--no-such-option", {"--no-such-option"});
  expect(1, train("toy1") + "--schedule line", {"--schedule"});
  expect(1, train("toy1") + "--beta1 1.5", {"--beta1"});
  expect(1, train("toy1") + "--save-every 3", {"--save"});
  expect(1, train("toy1") + "--optimizer lion",
         {"unknown option '--optimizer'; optimus-compile has it"});
  expect(1, "",
         {"expected train, eval, forward, generate, score, verify, inspect, "
          "convert or bench"});
  expect(1, "verify " + toy("toy1") + data(),
         {"b is required: model library to compare with a"});
  expect(1, "trian " + toy("toy1"),
         {"there is no subcommand 'trian'",
          "train, eval, forward, generate, score, verify, inspect"});
}

TEST_F(Errors, AnUntrainedModelIsSaidToBeOne) {
  const std::string eval = "eval " + toy("toy1") + data();
  expect(
      0, eval,
      {"warning: without --load parameters are the initial ones, of --seed 0",
       "loss "});
}

TEST_F(Errors, MisspeltWordsAreRecognised) {
  // Not that --data is unknown.
  expect(1, "trian " + toy("toy1") + " --data " + path("text.txt"),
         {"there is no subcommand 'trian'; did you mean 'train'?"});
  // Not that --data is missing.
  expect(1, "train " + toy("toy1") + " --dta " + path("text.txt"),
         {"unknown option '--dta'; did you mean '--data'?"});
  expect(1, "train " + toy("toy1") + " --dta=x", {"unknown option '--dta';"});
  expect(1, train("toy1") + "--save_every 3 --save x",
         {"did you mean '--save-every'?"});
  expect(1, "bench --com", {"did you mean '--comm'?"});
  expect(1, "--verison", {"did you mean '--version'?"});
  expect(1, "trian " + toy("toy1"), {"did you mean 'train'?"});
  expect(1, train("toy1") + "--schedule cosin",
         {"--schedule: expected constant, cosine, linear, wsd or inverse-sqrt, "
          "found cosin; did you mean "
          "'cosine'?"});
  expect(1, train("toy1") + "--order shufled",
         {"--order: expected shuffled or sequential", "'shuffled'?"});
  expect(1, train("toy1") + "--backend mpl",
         {"expected local, mpi, tcp or nccl", "'mpi'?"});
}

struct BadNumber {
  const char *option, *value, *expected;
};

TEST_F(Errors, NumbersOutOfRange) {
  const char *fromZero = "a number of at least 0, found";
  const char *positive = "a number above 0, found";
  const char *beta = "a number of at least 0 and below 1";
  for (const BadNumber &bad : std::initializer_list<BadNumber>{
           {"--lr", "nan", fromZero},
           {"--lr", "inf", fromZero},
           {"--lr", "-1e-9", fromZero},
           // Infinite in f32.
           {"--lr", "1e39", fromZero},
           {"--lr", "1e-3x", fromZero},
           {"--weight-decay", "-inf", fromZero},
           {"--weight-decay", "nan", fromZero},
           {"--clip", "0", positive},
           {"--clip", "nan", positive},
           // Zero in f32.
           {"--clip", "1e-60", positive},
           {"--epsilon", "0", positive},
           {"--beta1", "1", beta},
           {"--beta1", "-0.1", beta},
           {"--beta2", "nan", beta},
           // One in f32.
           {"--beta2", "0.99999999", beta},
           {"--steps", "-1", "a whole number from 0"},
           {"--steps", "1.5", "a whole number from 0"},
           {"--steps", "9223372036854775807", "a whole number from 0"},
           {"--warmup", "nan", "a whole number from 0"},
           {"--seed", "-1", "a whole number from 0"},
           {"--seed", "18446744073709551616", "a whole number from 0"},
           {"--save-every", "0", "a whole number from 1"},
           {"--threads-per-rank", "0", "a whole number from 1"},
           {"--threads-per-rank", "1000000000", "a whole number from 1"}})
    expect(1,
           train("toy1") + "--save " + path("save") + " " + bad.option + " " +
               bad.value,
           {bad.option, bad.expected, bad.value});
}

TEST_F(Errors, LastValueOfAnOptionCounts) {
  expect(0, train("toy1") + "--lr 1 --lr 0.001 --seed 2 --seed 3",
         {"seed 3", "lr 1.00e-03"});
}

TEST_F(Errors, RanksThatShareCoresAreToldOf) {
  Outcome two = runProgram(train("toy2"), "taskset -c 0");
  EXPECT_EQ(two.code, 0) << two.out;
  EXPECT_THAT(two.out, HasSubstr("warning: 2 ranks with 1 thread each share 1 "
                                 "core"));
  Outcome one = runProgram(train("toy1"), "taskset -c 0");
  EXPECT_EQ(one.code, 0) << one.out;
  EXPECT_THAT(one.out, Not(HasSubstr("warning")));
}

TEST_F(Errors, DeviceThatCannotBeOpened) {
  Outcome outcome = runProgram(train("toy1"),
                               "OPTIMUS_DEVICE_CPU_LIBRARY=/nowhere/device.so");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("/nowhere/device.so"), HasSubstr("oneDNN")));
}

TEST_F(Errors, PluginsOfAnotherBuild) {
  const std::string plugin = OPTIMUS_PLUGINS "/plugin-of-another-build.so";
  auto expectRefused = [&](const std::string &command, const char *variable) {
    Outcome outcome = runProgram(command, variable + ("=" + plugin));
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    EXPECT_THAT(outcome.out,
                HasSubstr(plugin + " and this program are not of the same "
                                   "build: expected the stamp "));
  };
  expectRefused(train("toy1"), "OPTIMUS_DEVICE_CPU_LIBRARY");
  expectRefused("bench --gemm --device cuda", "OPTIMUS_DEVICE_CUDA_LIBRARY");
}

TEST_F(Errors, Divergence) {
  expect(1, "train " + toy("toy2") + data() + " --steps 40 --lr 1e38",
         {"training diverged: at step", "lower --lr"});
}

TEST_F(Errors, ManifestThatPredictsOtherTraffic) {
  expect(2, train("toy-traffic"),
         {"internal error", "train_step communicated",
          "but the manifest predicts"});
  expect(2, "eval " + toy("toy-traffic") + data(),
         {"internal error", "eval_step communicated"});
  expect(2, "verify " + toy("toy1") + " " + toy("toy-traffic") + data(),
         {"internal error", "grad_step communicated"});
  expect(2, "bench --steps 1 " + toy("toy-traffic"),
         {"internal error", "train_step communicated"});
}

TEST_F(Errors, OneRankThatFailsEndsTheJob) {
  Outcome outcome = runProgram(train("toy-rank"), failingAt("3:watch_step"));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("internal error"),
                    HasSubstr("rank 1, clock (watch_step): fails, as a test "
                              "asks for"),
                    HasSubstr("\nstep 2/5 "), Not(HasSubstr("step 3/5"))));
}

// A library whose programs are not there, are damaged, or say otherwise than
// its manifest.
TEST_F(Errors, LibraryWithoutPrograms) {
  expect(1, train("toy-no-programs"),
         {"toy-no-programs.so", "there are no programs"});
  expect(1, "inspect " + toy("toy-no-programs"),
         {"toy-no-programs.so", "no section .optimus.programs"});
}

TEST_F(Errors, ProgramsThatWereCutShort) {
  for (std::string command :
       {train("toy-truncated"), "inspect --commands " + toy("toy-truncated")})
    expect(1, command,
           {"programs of `", "toy-truncated.so", "are no flatbuffer",
            "Compile it again"});
}

TEST_F(Errors, ProgramsThatTheManifestContradicts) {
  for (std::string command :
       {train("toy-arena"), "inspect " + toy("toy-arena")})
    expect(1, command,
           {"programs of `", "toy-arena.so", "train_step: the table has ",
            " bytes of arena, the manifest says "});
}

TEST_F(Errors, KernelOfAnotherSignature) {
  expect(1, train("toy-signature"),
         {"toy-signature.so", "expected code for the kernel one_hot(",
          "found code for another signature", "Compile"});
}

TEST_F(Errors, KernelWithoutCode) {
  expect(1, train("toy-kernel"),
         {"toy-kernel.so", "there is no code for the kernel forgotten"});
  // What is not run needs no code.
  expect(0, "inspect " + toy("toy-kernel"), {"written by hand"});
}

TEST_F(Errors, CommandsThatNothingOrders) {
  expect(1, train("toy-race"),
         {"toy-race.so", "function train_step: ",
          "table (reduce_scatter) reads "
          "what ",
          "table (gemm) writes, and nothing orders the two"});
}

TEST_F(Errors, LocalRanksUnderMpirun) {
  Outcome outcome =
      runProgram(train("toy2") + "--backend local", "OMPI_COMM_WORLD_SIZE=2 "
                                                    "OMPI_COMM_WORLD_RANK=0");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("mpirun started 2 processes"));
}

TEST_F(Errors, ProcessesThatCannotFindEachOther) {
  auto under = [&](const std::string &variables, const std::string &backend) {
    return runProgram(train("toy2") + backend, variables);
  };
  const std::string srun = "SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=";
  Outcome first = under(srun + "0", "");
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.out, HasSubstr("srun started 2 processes"));
  // One of them speaks.
  Outcome second = under(srun + "1", "");
  EXPECT_EQ(second.code, 1);
  EXPECT_EQ(second.out, "");
  // By hand each is started apart.
  Outcome byHand = under("", "--rank 1 --ranks 2");
  EXPECT_EQ(byHand.code, 1);
  EXPECT_THAT(byHand.out, HasSubstr("nothing says where they meet"));
  // Whoever insists, and whoever is alone, may go on.
  EXPECT_EQ(under(srun + "0", "--backend local").code, 0);
  EXPECT_EQ(under("SLURM_NTASKS=2 SLURM_PROCID=0", "").code, 0);
  EXPECT_EQ(under("WORLD_SIZE=1 RANK=0", "").code, 0);
  // Of commands of one process, the first does it.
  std::string inspect = "inspect " + toy("toy1");
  EXPECT_THAT(runProgram(inspect, srun + "0").out, HasSubstr("compiled by"));
  EXPECT_EQ(runProgram(inspect, srun + "1").out, "");
}

TEST_F(Errors, DifferentModelsCannotBeCompared) {
  expect(1, "verify " + toy("toy1") + " " + path("none.so") + data(),
         {"none.so"});
}

TEST_F(Errors, LibrariesWithoutRoundingCannotBeCompared) {
  expect(1, "verify " + toy("toy1") + " " + toy("toy-rounding") + data(),
         {"toy-rounding.so` does not say how far the results of grad_step may "
          "be off",
          "compile it again"});
}

TEST_F(Errors, HelpAndVersionSucceed) {
  for (const char *command :
       {"", "train ", "eval ", "verify ", "inspect ", "bench "})
    expect(0, std::string(command) + "--version", {"optimus-run 0."});
  expect(0, "--help", {"train", "eval", "inspect", "verify", "bench"});
  expect(0, "train --help", {"--steps", "--save-every", "--threads-per-rank"});
}

} // namespace
