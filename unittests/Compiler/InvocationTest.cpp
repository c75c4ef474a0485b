//===- InvocationTest.cpp - A compilation as a function -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Compiler/Invocation.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"
#include "optimus-support/ScratchFolder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "gtest/gtest.h"

#include <future>

using namespace mlir::optimus;
using llvm::StringRef;
using optimus_support::OutputFile;
using optimus_support::ScratchFolder;
using optimus_support::Status;
using optimus_support::StatusCode;
using Kind = CompileMessage::Kind;

static constexpr StringRef kProgram = R"mlir(
module attributes {optimus.model = {batch = 2 : i64, sequence = 8 : i64, vocabulary = 16 : i64}} {
  func.func @loss(
      %table: tensor<16x8xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.02, stream = 0>},
      %scale: tensor<8xf32> {optimus.param = "scale", optimus.init = #optimus.init<ones>},
      %shift: tensor<8xf32> {optimus.param = "shift", optimus.init = #optimus.init<zeros>},
      %up: tensor<8x32xf32> {optimus.param = "up", optimus.init = #optimus.init<normal, stddev = 0.02, stream = 1>},
      %down: tensor<32x8xf32> {optimus.param = "down", optimus.init = #optimus.init<normal, stddev = 0.02, stream = 2>},
      %tokens: tensor<2x8xi32> {optimus.binding = "tokens"},
      %targets: tensor<2x8xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
    %x = optimus.embedding %table, %tokens : (tensor<16x8xf32>, tensor<2x8xi32>) -> tensor<2x8x8xf32>
    %n, %mean, %rstd = optimus.layer_norm %x, %scale, %shift {epsilon = 1.0e-05 : f64} : (tensor<2x8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
    %h = optimus.matmul %n, %up : (tensor<2x8x8xf32>, tensor<8x32xf32>) -> tensor<2x8x32xf32>
    %g = optimus.gelu %h : tensor<2x8x32xf32>
    %y = optimus.matmul %g, %down : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %sum, %count = optimus.head_loss %y, %table, %targets {chunk = 512 : i64} : (tensor<2x8x8xf32>, tensor<16x8xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}
)mlir";

static constexpr StringRef kWrong = R"mlir(
func.func @loss(%a: tensor<2x8xf32>, %b: tensor<4x2xf32>) -> tensor<2x2xf32> {
  %c = optimus.matmul %a, %b : (tensor<2x8xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return %c : tensor<2x2xf32>
}
)mlir";

/// Names and values.
using Flags = std::vector<std::pair<StringRef, StringRef>>;

static Flags getFlags(bool isForGpu) {
  if (isForGpu)
    return {
        {"target", "cuda"}, {"gpu-arch", "emulated"}, {"mesh", "row:1,col:2"}};
  return {{"mesh", "row:2,col:1"}, {"accumulate", "true"}};
}

static std::string readFile(const std::string &path) {
  auto text = optimus_support::readInput(path, size_t(1) << 30);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *std::move(text) : std::string();
}

namespace {
/// What a compilation said, and how it ended.
struct Outcome {
  struct Message {
    Kind kind;
    std::string text;
    int line = 0;
  };
  Status status;
  std::vector<Message> messages;
};

class InvocationTest : public testing::Test {
protected:
  void SetUp() override {
    auto made = ScratchFolder::create("optimus-invocation-test");
    ASSERT_TRUE(made.ok()) << made.status().message();
    scratch = *std::move(made);
  }

  std::string file(StringRef name) const { return scratch->file(name.str()); }

  /// Compiles the good program in a process of its own; its bytes.
  std::string compileApart(bool isForGpu) const {
    const std::string input = file("program.mlir"), output = file("apart.so");
    EXPECT_TRUE(OutputFile::write(input, kProgram.str()).ok());
    std::vector<std::string> arguments{OPTIMUS_COMPILE, input, "-o", output};
    for (auto [name, value] : getFlags(isForGpu))
      arguments.push_back(("--" + name + "=" + value).str());
    const std::vector<StringRef> views(arguments.begin(), arguments.end());
    std::string error;
    EXPECT_EQ(llvm::sys::ExecuteAndWait(OPTIMUS_COMPILE, views,
                                        /*Env=*/std::nullopt, /*Redirects=*/{},
                                        /*SecondsToWait=*/0,
                                        /*MemoryLimit=*/0, &error),
              0)
        << error;
    return readFile(output);
  }

  /// Compiles in this process.
  static Outcome compileHere(StringRef program, const std::string &output,
                             const Flags &flags) {
    Outcome outcome;
    Invocation invocation;
    for (auto [name, value] : flags)
      EXPECT_TRUE(invocation.settings.set(name, value).ok()) << name.str();
    invocation.settings.input = "program.mlir";
    invocation.settings.output = output;
    invocation.program = program.str();
    invocation.listener = [&](const CompileMessage &message) {
      outcome.messages.push_back(
          {message.kind, message.text.str(),
           message.place ? message.place->getLineNo() : 0});
    };
    outcome.status = compile(invocation);
    return outcome;
  }

  /// Compiles the good program here, and compares.
  void expectBytes(const std::string &expected, bool isForGpu,
                   StringRef name) const {
    Outcome outcome = compileHere(kProgram, file(name), getFlags(isForGpu));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_TRUE(outcome.messages.empty()) << outcome.messages.front().text;
    // EXPECT_EQ would print both.
    EXPECT_TRUE(readFile(file(name)) == expected)
        << name.str() << " is not the library of a process of its own";
  }

  /// Hidden files, and those of a compilation that fails.
  std::vector<std::string> listRests() const {
    std::vector<std::string> names;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator
             at(llvm::sys::path::parent_path(file("x")), error),
         end;
         at != end && !error; at.increment(error))
      if (StringRef name = llvm::sys::path::filename(at->path());
          name.starts_with(".") || name.starts_with("failed"))
        names.push_back(name.str());
    return names;
  }

  std::unique_ptr<ScratchFolder> scratch;
};
} // namespace

TEST_F(InvocationTest, GivesTheBytesOfAProcessOneAfterAnother) {
  const std::string expected[] = {compileApart(false), compileApart(true)};
  ASSERT_FALSE(expected[0] == expected[1]);
  for (bool isForGpu : {false, true, false, true})
    expectBytes(expected[isForGpu], isForGpu, isForGpu ? "gpu.so" : "cpu.so");
}

TEST_F(InvocationTest, GivesTheBytesOfAProcessAtOnce) {
  const std::string expected[] = {compileApart(false), compileApart(true)};
  constexpr std::pair<bool, bool> kPairs[] = {
      {false, true}, {false, false}, {true, true}};
  for (auto [first, second] : kPairs) {
    auto other = std::async(std::launch::async, [&, isForGpu = first] {
      expectBytes(expected[isForGpu], isForGpu, "first.so");
    });
    expectBytes(expected[second], second, "second.so");
    other.get();
  }
}

TEST_F(InvocationTest, ReportsAMistakeOfTheProgramWithItsPlace) {
  Outcome outcome = compileHere(kWrong, file("failed.so"), {});
  EXPECT_EQ(outcome.status.code(), StatusCode::InvalidArgument);
  ASSERT_FALSE(outcome.messages.empty());
  EXPECT_EQ(outcome.messages[0].kind, Kind::Error);
  EXPECT_EQ(outcome.messages[0].line, 3);
  EXPECT_NE(outcome.messages[0].text.find("optimus.matmul"), std::string::npos)
      << outcome.messages[0].text;
  EXPECT_EQ(outcome.status.message(), outcome.messages[0].text);
  EXPECT_EQ(listRests(), std::vector<std::string>());
}

TEST_F(InvocationTest, ReportsAMistakeOfTheFlags) {
  Outcome outcome =
      compileHere(kProgram, file("failed.so"), {{"strategy", "sumo"}});
  EXPECT_EQ(outcome.status.code(), StatusCode::InvalidArgument);
  ASSERT_EQ(outcome.messages.size(), 1u);
  EXPECT_EQ(outcome.messages[0].kind, Kind::Error);
  EXPECT_EQ(outcome.messages[0].line, 0);
  EXPECT_EQ(outcome.messages[0].text, outcome.status.message());
  EXPECT_EQ(outcome.status.message().find("--strategy: unknown"), 0u)
      << outcome.status.message();
  EXPECT_EQ(listRests(), std::vector<std::string>());
}

TEST_F(InvocationTest, LeavesAnOldLibraryWhereItFails) {
  ASSERT_TRUE(OutputFile::write(file("failed.so"), "as it was").ok());
  Outcome outcome =
      compileHere(kProgram, file("failed.so"), {{"memory-budget", "1KiB"}});
  EXPECT_EQ(outcome.status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(outcome.status.message().find("no layout fits"), 0u)
      << outcome.status.message();
  EXPECT_EQ(listRests(), std::vector<std::string>{"failed.so"});
  EXPECT_EQ(readFile(file("failed.so")), "as it was");
}

TEST_F(InvocationTest, FailsBesideOneThatSucceeds) {
  const std::string expected = compileApart(/*isForGpu=*/false);
  Outcome wrong;
  auto other = std::async(std::launch::async, [&] {
    wrong = compileHere(kWrong, file("failed.so"), {});
  });
  expectBytes(expected, /*isForGpu=*/false, "good.so");
  other.get();
  EXPECT_EQ(wrong.status.code(), StatusCode::InvalidArgument);
  EXPECT_FALSE(wrong.messages.empty());
  EXPECT_EQ(listRests(), std::vector<std::string>());
}

TEST_F(InvocationTest, WritesTheReportWhereItIsAskedTo) {
  std::string text;
  llvm::raw_string_ostream report(text);
  Invocation invocation;
  invocation.settings.output = file("reported.so");
  invocation.settings.report = true;
  invocation.program = kProgram.str();
  invocation.report = &report;
  EXPECT_TRUE(compile(invocation).ok());
  EXPECT_EQ(text.find("function "), 0u) << text;
  EXPECT_NE(text.find("\ntrain_step "), std::string::npos) << text;
}
