//===- ParserTest.cpp - Command lines of our tools ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine/Parser.h"
#include "CommandLine/Values.h"

#include <gmock/gmock.h>

using namespace optimus_command_line;
using optimus_support::StatusOr;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

/// A tool with one input, and one with subcommands.
class ParserTest : public testing::Test {
protected:
  ParserTest() {
    prepare(app, "tool 1.2.3");
    app.add_option("INPUT", input, "What is read")->required();
    app.add_option("-o", output, "What is written")->type_name("FILE");
    app.add_option("--mesh", mesh, "The mesh");
    app.add_option("--count", count, "How many")
        ->check(oneOf(Number<int>{"a number from 1 to 9", 1, 9}));
    app.add_option("--goal", goal, "Which")
        ->check(oneOf(Word{{"time", "memory"}}));
    app.add_flag("--report", report, "Whether to report");
    addList(app, "--layout", layouts, "Where tensors lie");
  }

  /// What is printed instead of doing anything; "" where all is well.
  std::string get(std::vector<std::string> arguments, const Rules &rules = {}) {
    StatusOr<std::string> asked = parse(app, std::move(arguments), rules);
    return asked.ok() ? *asked : asked.status().message();
  }
  /// The first line of a message; the second is the reference to help.
  std::string refuse(std::vector<std::string> arguments,
                     const Rules &rules = {}) {
    StatusOr<std::string> asked = parse(app, std::move(arguments), rules);
    if (asked.ok())
      return "nothing is refused";
    EXPECT_EQ(asked.status().exitCode(), 1);
    const std::string &text = asked.status().message();
    EXPECT_THAT(text, EndsWith("\n`tool --help` lists what can be given"));
    return text.substr(0, text.find('\n'));
  }

  CLI::App app{"Does something.", "tool"};
  std::string input, output, mesh, goal;
  int count = 0;
  bool report = false;
  std::vector<std::string> layouts;
};

TEST_F(ParserTest, ValuesComeInBothForms) {
  EXPECT_EQ(get({"a.mlir", "--mesh=row:2", "--layout", "x=row", "-o=b",
                 "--layout=y=col", "--report"}),
            "");
  EXPECT_EQ(input, "a.mlir");
  EXPECT_EQ(mesh, "row:2");
  EXPECT_EQ(output, "b");
  EXPECT_TRUE(report);
  EXPECT_THAT(layouts, ElementsAre("x=row", "y=col"));
}

TEST_F(ParserTest, ListsTakeOneValueATime) {
  EXPECT_EQ(get({"--layout", "x=row", "a.mlir", "--report=false", "-o", "-"}),
            "");
  EXPECT_EQ(input, "a.mlir");
  EXPECT_EQ(output, "-");
  EXPECT_FALSE(report);
  EXPECT_THAT(layouts, ElementsAre("x=row"));
}

TEST_F(ParserTest, UnknownOptionsComeFirst) {
  // Neither the missing INPUT nor the wrong count is mentioned.
  EXPECT_EQ(refuse({"--count=0", "--reprot"}),
            "unknown option '--reprot'; did you mean '--report'?");
  EXPECT_EQ(refuse({"--msh=row:2"}),
            "unknown option '--msh'; did you mean '--mesh'?");
  EXPECT_EQ(refuse({"-mesh", "row:2"}),
            "unknown option '-mesh'; did you mean '--mesh'?");
  EXPECT_EQ(refuse({"--colour"}), "unknown option '--colour'");
  EXPECT_EQ(refuse({"--mlir-timin"}, {.otherOptions = {"--mlir-timing"}}),
            "unknown option '--mlir-timin'; did you mean '--mlir-timing'?");
  EXPECT_EQ(refuse({"--lr=1"}, {.elsewhere = {"--lr"}, .otherTool = "run"}),
            "unknown option '--lr'; run has it");
  // Nor a file `utput`.
  EXPECT_EQ(refuse({"a.mlir", "-output", "b"}), "unknown option '-output'");
}

TEST_F(ParserTest, OneInput) {
  EXPECT_EQ(refuse({"a", "b"}), "two inputs, 'a' and 'b'; give one");
  EXPECT_EQ(refuse({}), "INPUT is required: what is read");
  EXPECT_THAT(refuse({"@a"}), HasSubstr("'@a': arguments are not read from "
                                        "files"));
}

TEST_F(ParserTest, WhetherTheLastValueCounts) {
  EXPECT_EQ(refuse({"a", "--mesh=1", "--mesh=2"}),
            "--mesh is given twice; give it once");
  EXPECT_EQ(refuse({"a", "--report", "--report"}),
            "--report is given twice; give it once");
  EXPECT_EQ(get({"a", "--mesh=1", "--mesh=2"}, {.lastCounts = true}), "");
  EXPECT_EQ(mesh, "2");
}

TEST_F(ParserTest, ValuesAreNeitherMissingNorEmpty) {
  const char *nothing = "--mesh: expected a value, found nothing";
  EXPECT_EQ(refuse({"a", "--mesh"}), nothing);
  EXPECT_EQ(refuse({"a", "--mesh="}), nothing);
  EXPECT_EQ(refuse({"a", "--mesh=", "--report"}), nothing);
  EXPECT_EQ(refuse({"a", "--mesh", ""}), nothing);
  EXPECT_EQ(refuse({"a", "-o"}), "-o: expected a value, found nothing");
}

TEST_F(ParserTest, ValuesAreChecked) {
  EXPECT_EQ(refuse({"a", "--count=10"}),
            "--count: expected a number from 1 to 9, found 10");
  EXPECT_EQ(refuse({"a", "--count=3x"}),
            "--count: expected a number from 1 to 9, found 3x");
  EXPECT_EQ(refuse({"a", "--goal=tim"}),
            "--goal: expected time or memory, found tim; did you mean 'time'?");
  EXPECT_EQ(refuse({"a", "--report=perhaps"}),
            "--report: expected true or false, found 'perhaps'");
}

TEST_F(ParserTest, HelpAndVersion) {
  EXPECT_EQ(get({"--version"}), "tool 1.2.3\n");
  std::string help = get({"--help"});
  EXPECT_THAT(help, StartsWith("Does something.\nUsage: tool [OPTIONS] INPUT"));
  EXPECT_THAT(help, HasSubstr("  -o FILE                   What is written\n"));
  // A mistake is not passed over.
  EXPECT_EQ(refuse({"--help", "--reprot"}),
            "unknown option '--reprot'; did you mean '--report'?");
}

TEST(Subcommands, AreNamedAndAnswerForThemselves) {
  CLI::App app("Does several things.", "tool");
  prepare(app, "tool 1.2.3");
  app.require_subcommand(1);
  std::string data, library;
  CLI::App *train = app.add_subcommand("train", "Train a model");
  train->add_option("library", library, "The model; a file")->required();
  train->add_option("--data", data, "What to train on")->required();
  app.add_subcommand("inspect", "Look into a model");
  auto message = [&](std::vector<std::string> arguments) {
    StatusOr<std::string> asked = parse(app, std::move(arguments));
    return asked.ok() ? *asked : asked.status().message();
  };
  EXPECT_EQ(message({"trian", "x"}),
            "there is no subcommand 'trian'; did you mean 'train'?; there are "
            "train, inspect\n`tool --help` lists what can be given");
  EXPECT_EQ(message({}), "expected train or inspect, found no command\n`tool "
                         "--help` lists what can be given");
  EXPECT_EQ(message({"train", "x", "--dta", "y"}),
            "unknown option '--dta'; did you mean '--data'?\n`tool train "
            "--help` lists what can be given");
  EXPECT_EQ(message({"train", "x"}),
            "--data is required\n`tool train --help` lists what can be given");
  EXPECT_EQ(
      message({"train", "--data", "y"}),
      "library is required: the model\n`tool train --help` lists what can "
      "be given");
  EXPECT_EQ(message({"train", "x", "y", "--data", "z"}),
            "unexpected argument 'y'\n`tool train --help` lists what can be "
            "given");
  EXPECT_THAT(message({"train", "--help"}),
              StartsWith("Train a model\nUsage: tool train [OPTIONS] library"));
  EXPECT_EQ(message({"train", "x", "--data", "y"}), "");
}

} // namespace
