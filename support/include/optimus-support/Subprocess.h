//===- Subprocess.h - Starting other tools ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_SUBPROCESS_H
#define OPTIMUS_SUPPORT_SUBPROCESS_H

#include "optimus-support/Status.h"

#include <string>
#include <vector>

namespace optimus_support {

/// The path of another of our tools, "optimus-run": the one beside this
/// program, else its name, which PATH finds.
std::string findTool(const std::string &name);

/// Runs a program to its end. Its standard input is empty; all it prints goes
/// to the file `log`. Returns a status as waitpid() has it. Unavailable where
/// the program cannot be started.
StatusOr<int> runProgram(const std::vector<std::string> &command,
                         const std::string &log);

/// What a program printed to such a file, without line breaks at its end; of
/// more than a mebibyte nothing.
std::string readLog(const std::string &log);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_SUBPROCESS_H
