//===- CommandLineErrors.h - What is wrong with what was asked for --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDLINEERRORS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDLINEERRORS_H

#include <CLI/App.hpp>

#include <string>
#include <vector>

namespace optimus_run {

/// Throws where an option was given an empty value, as by `--save "$FOLDER"`
/// where that is not set: without the option, nothing would be saved.
void refuseEmptyValues(const CLI::App &subcommand);

/// The same for `--save=$FOLDER`, where CLI11 would take the next argument.
void refuseNothingAfterEquals(const std::vector<std::string> &arguments);

/// One line that says what is wrong, and one that says where help is.
std::string failureMessage(const CLI::App *app, const CLI::Error &error);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDLINEERRORS_H
