//===- PlanFile.h - From live ranges to a plan in a file --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_PLAN_PLANFILE_H
#define OPTIMUS_TOOLS_OPTIMUS_PLAN_PLANFILE_H

#include "CommandLine.h"

namespace optimus_plan {

/// Reads live ranges, plans their arena and writes what is asked for. The error
/// InvalidArgument also says where the arena passes the capacity.
optimus_support::Status planFile(const Arguments &arguments);

} // namespace optimus_plan

#endif // OPTIMUS_TOOLS_OPTIMUS_PLAN_PLANFILE_H
