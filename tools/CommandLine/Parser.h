//===- Parser.h - Command lines of our tools --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CLI11 parses flags. Here is how `--help` looks, and the one message about a
// mistake, in all tools alike.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_COMMANDLINE_PARSER_H
#define OPTIMUS_TOOLS_COMMANDLINE_PARSER_H

#include "optimus-support/Status.h"

// All three define what an App is made of.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <string>
#include <vector>

namespace optimus_command_line {

/// What tools differ in.
struct Rules {
  /// Whether the last value of a repeated option counts, so that a user can
  /// overrule a script's defaults. Else an option is given once, but for those
  /// that take a list.
  bool lastCounts = false;
  /// Options that another parser reads. An unknown option may have meant one.
  std::vector<std::string> otherOptions = {};
  /// Options of another tool, that users look for here.
  std::vector<std::string> elsewhere = {};
  std::string otherTool = {};
};

/// Sets the look of `--help` and the answer to `--version`. Comes before
/// options and subcommands, which inherit from the app.
void prepare(CLI::App &app, const std::string &version);

/// An option that may be repeated, with one value each time.
CLI::Option *addList(CLI::App &app, const std::string &name,
                     std::vector<std::string> &values, const std::string &help);

/// Gives options their values. Returns the text of --help or --version where
/// it is asked for, else "". InvalidArgument for the first of: an unknown
/// option, with the nearest name; a second input; a repeated option; what CLI11
/// or a validator refuses; an empty value.
optimus_support::StatusOr<std::string> parse(CLI::App &app,
                                             std::vector<std::string> arguments,
                                             const Rules &rules = {});

} // namespace optimus_command_line

#endif // OPTIMUS_TOOLS_COMMANDLINE_PARSER_H
