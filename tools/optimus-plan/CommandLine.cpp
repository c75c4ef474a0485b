//===- CommandLine.cpp - The flags of optimus-plan --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include "CommandLine/Parser.h"
#include "CommandLine/Values.h"

using namespace optimus_plan;
using optimus_command_line::Number;
using optimus_command_line::oneOf;
using optimus_support::StatusOr;

static void addOptions(CLI::App &app, Arguments &arguments) {
  app.add_option("FILE.csv", arguments.input,
                 "Live ranges: columns id,lower,upper,size[,alignment][,gaps]"
                 "[,offset]; a buffer is alive from time lower up to, not "
                 "including, upper, but in the gaps, as in '3-5 8-9'; sizes "
                 "are bytes; with an offset it lies there; - is standard "
                 "input")
      ->required();
  app.add_option("--capacity", arguments.options.capacity,
                 "Bytes the arena must fit in; exit 1 when it does not, with a "
                 "proven conflict of buffers where there is one. Without it, "
                 "the smallest arena found")
      ->check(oneOf(Number<int64_t>{"a number of bytes", 0, INT64_MAX}));
  // Without a capacity the smallest arena is asked for.
  arguments.options.goodEnough = 1;
  app.add_option("--good-enough", arguments.options.goodEnough,
                 "Stop at so many times the lower bound")
      ->capture_default_str()
      ->check(oneOf(Number<double>{"a ratio from 1 to 1e6", 1, 1e6}));
  app.add_option("--node-limit", arguments.options.nodeLimit,
                 "Buffers that the exact search may place, and without "
                 "--timeout the local search too; 0: none")
      ->capture_default_str()
      ->check(oneOf(Number<int64_t>{"a whole number >= 0", 0, INT64_MAX}));
  app.add_option("--timeout", arguments.options.timeout,
                 "Seconds of search: the arena shrinks until then, or until it "
                 "is proven to be the smallest (default: none). The plan then "
                 "depends on the speed of the machine")
      ->check(oneOf(Number<double>{"seconds from 0 to 1e6", 0, 1e6}));
  app.add_option(
         "-o", arguments.output,
         "Write id,lower,upper,size,alignment[,gaps],offset there; - is "
         "standard output")
      ->type_name("FILE");
  app.add_option("--conflict-to", arguments.conflict,
                 "Write the buffers that cannot fit together in --capacity "
                 "there, as ranges; - is standard output")
      ->type_name("FILE");
  app.add_flag("--report", arguments.report,
               "Print bound, arena, their ratio and the method");
}

StatusOr<std::string> optimus_plan::parseCommandLine(int argc, char **argv,
                                                     Arguments &arguments) {
  CLI::App app("Gives every buffer of a file of live ranges an offset in one "
               "arena.",
               "optimus-plan");
  optimus_command_line::prepare(app, "optimus-plan " OPTIMUS_VERSION);
  addOptions(app, arguments);
  return optimus_command_line::parse(app, {argv + 1, argv + argc});
}
