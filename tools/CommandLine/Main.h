//===- Main.h - Programs of one job -----------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_COMMANDLINE_MAIN_H
#define OPTIMUS_TOOLS_COMMANDLINE_MAIN_H

#include "optimus-support/Status.h"

#include <functional>
#include <string>

namespace optimus_command_line {

/// The main function of a tool that parses its command line, does one thing and
/// ends. `parse` returns the text of --help or --version where it is asked for;
/// without one `work` is done. Prints what fails, as `program`'s, and returns
/// the exit code.
int runMain(
    const char *program,
    const std::function<optimus_support::StatusOr<std::string>()> &parse,
    const std::function<optimus_support::Status()> &work);

} // namespace optimus_command_line

#endif // OPTIMUS_TOOLS_COMMANDLINE_MAIN_H
