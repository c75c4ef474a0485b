//===- optimus-simulate.cpp - What a model library would take ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 the answer is written, 1 the input or a flag is wrong, 2 a
// fault of ours.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "CommandLine/Main.h"
#include "SimulateLibrary.h"

using namespace optimus_simulate;

int main(int argc, char **argv) {
  Arguments arguments;
  return optimus_command_line::runMain(
      "optimus-simulate",
      [&] { return parseCommandLine(argc, argv, arguments); },
      [&] { return simulateLibrary(arguments); });
}
