//===- LaneFile.h - The runs of train --lanes -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_LANEFILE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_LANEFILE_H

#include "CommandLine.h"

#include <optional>
#include <string>
#include <vector>

namespace optimus_run {

/// The file of train --lanes, which is taken out of the arguments.
std::optional<std::string> takeLanes(std::vector<std::string> &arguments);

/// The runs of a file of lanes, each as if its line stood behind the arguments.
///
/// Errors: InvalidArgument with the line of a run that is none.
optrt::Status readLanes(const std::vector<std::string> &arguments,
                        const std::string &file, CommandLine &line);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_LANEFILE_H
