//===- ProfileOutput.h - A simulation as a profile --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_PROFILEOUTPUT_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_PROFILEOUTPUT_H

#include "Output.h"

namespace optimus_simulate {

/// Writes what was recorded as `optimus-run train --profile` writes a run, with
/// the ranks of the timelines. The file takes its place once it is whole.
optimus_support::Status writeProfile(const Answer &answer,
                                     const std::string &path);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_PROFILEOUTPUT_H
