//===- BenchTest.cpp - optimus-run bench ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include <sstream>

using testing::HasSubstr;

namespace {

using Bench = ProgramTest;

TEST_F(Bench, WritesJson) {
  Outcome outcome = runProgram("bench " + toy("toy3") +
                               " --steps 7 --warmup 0 --json "
                               "--threads-per-rank 1");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  auto report = outcome.json();
  EXPECT_EQ(report["ranks"], 3);
  EXPECT_EQ(report["threads_per_rank"], 1);
  EXPECT_EQ(report["steps"], 7);
  const auto &ms = report["ms"];
  EXPECT_GT(ms["min"], 0);
  EXPECT_LE(ms["min"], ms["lower_quartile"]);
  EXPECT_LE(ms["lower_quartile"], ms["median"]);
  EXPECT_LE(ms["median"], ms["upper_quartile"]);
  EXPECT_LE(ms["upper_quartile"], ms["max"]);
  EXPECT_LE(ms["min"], ms["mean"]);
  EXPECT_LE(ms["mean"], ms["max"]);
  // A step is 4 sequences of 8 tokens.
  EXPECT_DOUBLE_EQ(report["tokens_per_s"], 32e3 / double(ms["median"]));
  auto manifest = runProgram("inspect --json " + toy("toy3")).json();
  for (const auto &function : manifest["functions"]) {
    if (function["name"] == "train_step") {
      EXPECT_EQ(report["communication"], function["communication"]);
    }
  }
  const auto &time = report["communication_ms"];
  EXPECT_GT(time["in_flight"], 0);
  EXPECT_GT(time["exposed"], 0);
  EXPECT_LE(time["exposed"], time["in_flight"]);
  // Within the step, apart from which step is the median.
  EXPECT_LE(time["in_flight"], ms["max"]);
  ASSERT_EQ(time["axes"].size(), 1u);
  EXPECT_EQ(time["axes"][0]["axis"], "row");
  EXPECT_EQ(time["axes"][0]["exposed"], time["exposed"]);
  const auto &memory = report["memory"];
  EXPECT_EQ(memory["state"], 2 * int64_t(memory["parameters"]));
  EXPECT_GT(memory["total"], 3 * int64_t(memory["parameters"]));
}

TEST_F(Bench, PrintsForPeople) {
  Outcome outcome = runProgram("bench " + toy("toy2") + " --steps 3");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("3 steps: median "));
  EXPECT_THAT(outcome.out, HasSubstr("tokens/s"));
  EXPECT_THAT(outcome.out, HasSubstr("communication over row: "));
  EXPECT_THAT(outcome.out, HasSubstr("ms in flight, "));
  EXPECT_THAT(outcome.out, HasSubstr("% hidden)"));
  EXPECT_THAT(outcome.out, HasSubstr("memory of the largest rank: "));
}

TEST_F(Bench, RefusesNothingToTime) {
  Outcome outcome = runProgram("bench " + toy("toy2") + " --steps 0");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              HasSubstr("--steps: expected a whole number from 1"));
}

constexpr const char *kCollectives[] = {"broadcast", "reduce", "all_reduce",
                                        "all_gather", "reduce_scatter"};

TEST_F(Bench, CommTimesAndChecksEveryCollective) {
  Outcome outcome =
      runProgram("bench --comm --ranks 3 --min-bytes 48 --max-bytes 3072");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  for (const char *column : {"size (B)", "count", "type", "redop", "root",
                             "time (us)", "algbw", "busbw", "#wrong"})
    EXPECT_THAT(line, HasSubstr(column));
  for (const char *name : kCollectives)
    for (int64_t bytes : {48, 192, 768, 3072}) {
      std::getline(lines, line);
      std::istringstream words(line);
      std::string collective, type, redop;
      int64_t size = 0, count = 0, root = 0, wrong = -1;
      double time = 0, algbw = 0, busbw = 0;
      words >> collective >> size >> count >> type >> redop >> root >> time >>
          algbw >> busbw >> wrong;
      EXPECT_EQ(collective, name);
      EXPECT_EQ(size, bytes);
      EXPECT_EQ(count * 4, bytes);
      EXPECT_GT(time, 0);
      EXPECT_EQ(wrong, 0);
    }
}

TEST_F(Bench, CommMergesIntoAMachineProfile) {
  write("machine.json", R"({"version": 1, "gemm": [{"m": 7}], "comm": [
      {"backend": "local", "ranks": 2, "collective": "reduce", "alpha_s": 9},
      {"backend": "nccl", "ranks": 2, "collective": "reduce", "alpha_s": 8}]})");
  Outcome outcome =
      runProgram("bench --comm --ranks 2 --max-bytes 1024 --profile " +
                 path("machine.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  auto profile = nlohmann::json::parse(read("machine.json"));
  EXPECT_EQ(profile["gemm"][0]["m"], 7);
  // The measured entry was exchanged, the other back-end's stayed.
  ASSERT_EQ(profile["comm"].size(), 6u);
  EXPECT_EQ(profile["comm"][0]["backend"], "nccl");
  for (std::size_t i = 0; i != 5; ++i) {
    const auto &entry = profile["comm"][i + 1];
    EXPECT_EQ(entry["backend"], "local");
    EXPECT_EQ(entry["ranks"], 2);
    EXPECT_EQ(entry["machines"], 1);
    EXPECT_EQ(entry["collective"], kCollectives[i]);
    EXPECT_GE(entry["alpha_s"], 0);
    EXPECT_GE(entry["beta_s_per_byte"], 0);
    ASSERT_EQ(entry["points"].size(), 3u);
    EXPECT_EQ(entry["points"][2]["bytes"], 1024);
    EXPECT_GT(entry["points"][2]["seconds"], 0);
    EXPECT_GE(entry["points"][2]["processor_s"], 0);
  }
}

TEST_F(Bench, GemmWritesAMachineProfile) {
  write("machine.json", R"({"version": 1, "comm": [{"ranks": 7}],
      "gemm": [{"threads": 1, "ranks": 2, "alpha_s": 9},
               {"threads": 1, "ranks": 8, "alpha_s": 8}]})");
  Outcome outcome =
      runProgram("bench --gemm --largest 64 --rounds 1 --ranks 2 --profile " +
                 path("machine.json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("GFLOP/s"));
  auto profile = nlohmann::json::parse(read("machine.json"));
  EXPECT_EQ(profile["comm"][0]["ranks"], 7);
  // The measured entry was exchanged, the one of other ranks stayed.
  ASSERT_EQ(profile["gemm"].size(), 2u);
  EXPECT_EQ(profile["gemm"][0]["ranks"], 8);
  const auto &entry = profile["gemm"][1];
  EXPECT_EQ(entry["threads"], 1);
  EXPECT_EQ(entry["ranks"], 2);
  EXPECT_GE(entry["cores"], 1);
  for (const char *key :
       {"alpha_s", "kernel_alpha_s", "bytes_per_s", "vector_ops_per_s",
        "divisions_per_s", "scalar_ops_per_s"})
    EXPECT_GT(entry[key], 0) << key;
  for (const char *key : {"streams", "columns"}) {
    EXPECT_EQ(entry[key].size(), 9u) << key;
    for (const auto &point : entry[key])
      EXPECT_GT(point["bytes_per_s"], 0) << key;
  }
  // Two pairs of features, plain and transposed.
  ASSERT_EQ(entry["packs"].size(), 4u);
  for (const auto &point : entry["packs"])
    EXPECT_GT(point["seconds"], 0);
  ASSERT_EQ(entry["types"].size(), 1u);
  EXPECT_EQ(entry["types"][0]["type"], "bf16");
  for (const auto &rates : {entry, entry["types"][0]}) {
    EXPECT_GT(rates["attention_flops_per_s"], 0);
    EXPECT_GE(rates["cold_s_per_byte"], 0);
    // Sequences of 32, four sizes of heads, with a mask and without, and the
    // gradients.
    ASSERT_EQ(rates["attention"].size(), 16u);
    for (const auto &point : rates["attention"])
      EXPECT_GT(point["seconds"], 0);
    // 32, 128 and 1024 tokens and two pairs of features in three kinds of
    // products; gradients of weights have all four pairs and the larger
    // numbers.
    ASSERT_EQ(rates["points"].size(), 26u);
    for (const auto &point : rates["points"]) {
      EXPECT_GT(point["seconds"], 0);
      double flops =
          2.0 * double(point["m"]) * double(point["n"]) * double(point["k"]);
      EXPECT_LE(flops / double(point["seconds"]), rates["flops_per_s"]);
    }
  }
}

TEST_F(Bench, CommRefusesWhatItCannotDo) {
  write("text.json", "[1, 2]");
  write("future.json", R"({"version": 2})");
  struct Case {
    std::string arguments, message;
  };
  for (const Case &wrong :
       {Case{"", "library is required"}, Case{"--comm", "needs --ranks N"},
        Case{"--ranks 2 " + toy("toy1"), "--ranks requires --comm"},
        Case{"--gemm --comm --ranks 2", "--comm excludes --gemm"},
        Case{"--profile machine.json " + toy("toy1"),
             "--profile requires --comm or --gemm"},
        Case{"--comm --ranks 2 --min-bytes 64 --max-bytes 32",
             "--min-bytes 64 is above --max-bytes 32"},
        Case{"--comm --ranks 2 --profile " + path("text.json"),
             "expected a JSON object"},
        Case{"--comm --ranks 2 --profile " + path("future.json"),
             "expected \"version\": 1, found 2"}}) {
    Outcome outcome = runProgram("bench " + wrong.arguments);
    EXPECT_EQ(outcome.code, 1) << wrong.arguments;
    EXPECT_THAT(outcome.out, HasSubstr(wrong.message));
  }
  EXPECT_EQ(read("text.json"), "[1, 2]");
}

} // namespace
