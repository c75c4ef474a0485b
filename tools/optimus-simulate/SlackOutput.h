//===- SlackOutput.h - What may be later ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SLACKOUTPUT_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SLACKOUTPUT_H

#include "Output.h"

#include <ostream>

namespace optimus_simulate {

/// The longest paths of which every command may be later; nothing where slack
/// was not asked for.
void printSlack(const Answer &answer, std::ostream &out);

/// Every command but waits, of a rank for each of those that do the same. Times
/// are milliseconds.
nlohmann::ordered_json describeSlack(const Answer &answer);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_SLACKOUTPUT_H
