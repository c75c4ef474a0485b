//===- Program.h - Runs optimus-run and looks at the outcome ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_UNITTESTS_PROGRAM_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_UNITTESTS_PROGRAM_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

struct Outcome {
  int code;
  std::string out; ///< standard output and error together

  /// The object of --json; warnings may stand before it.
  nlohmann::json json() const {
    return nlohmann::json::parse(
        out.substr(std::min(out.find('{'), out.size())));
  }
};

/// Runs `launcher` optimus-run `arguments` through the shell.
Outcome runProgram(const std::string &arguments,
                   const std::string &launcher = "");

/// Runs a script of the shell; its standard output.
Outcome runShell(const std::string &script);

/// Starts optimus-run as above, waits until `file` has a line, sends the signal
/// to the process numbered in `pidFile`, or without a file to optimus-run, and
/// waits for the end.
Outcome signalProgram(const std::string &arguments, int signal,
                      const std::string &file, const std::string &launcher = "",
                      const std::string &pidFile = "");

/// A launcher that starts `ranks` processes of a program.
std::string mpirun(int ranks);

/// Variables for a device of tests that fails at a launch: "3:norm" for the
/// third one of the kernel norm.
std::string failingAt(const std::string &launch);

/// The path of a hand-written library: toy("toy2").
std::string toy(const std::string &name);

/// A test with a folder of its own, removed afterwards, and a text file of
/// 1000 tokens that no model knows by heart.
class ProgramTest : public testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  std::string path(const std::string &name) const { return dir + "/" + name; }
  void write(const std::string &name, const std::string &content) const;
  std::string read(const std::string &name) const;
  /// The objects of a --log-json file that tell of steps.
  std::vector<nlohmann::json> readLog(const std::string &name) const;
  /// How the run ended, by the last line of that file.
  std::string readEnd(const std::string &name) const;
  /// " --data FILE".
  std::string data() const { return " --data " + path("text.txt"); }

  std::string dir;
};

/// One whose ranks are processes of MPI.
template <typename Base>
class OverMpi : public Base {
protected:
  // Here, because a test that is skipped in a function it calls goes on.
  void SetUp() override {
    Base::SetUp();
#ifndef OPTIMUS_HAVE_MPI
    GTEST_SKIP() << "built without the MPI back-end";
#endif
    if (std::system("command -v mpirun > /dev/null") != 0)
      GTEST_SKIP() << "mpirun is not installed";
  }
};

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_UNITTESTS_PROGRAM_H
