//===- optimus-plan.cpp - Plans an arena for live ranges ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 the plan is written, 1 the input or a flag is wrong or the
// arena passes the capacity, 2 the planner made a mistake.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "CommandLine/Main.h"
#include "PlanFile.h"

using namespace optimus_plan;

int main(int argc, char **argv) {
  Arguments arguments;
  return optimus_command_line::runMain(
      "optimus-plan", [&] { return parseCommandLine(argc, argv, arguments); },
      [&] { return planFile(arguments); });
}
