//===- ProgramScratch.h - What a function needs besides plans ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMSCRATCH_H
#define OPTIMUS_SUPPORT_PROGRAMSCRATCH_H

#include "optimus-support/DeviceScratch.h"
#include "optimus-support/Program.h"

namespace optimus_support::program {

/// The most scratch of a processor's device for a run of a function, which was
/// checked.
DeviceScratch scratchOf(const FunctionT &function);
/// The same of the device that a target is for.
DeviceScratch scratchOf(const TargetT &target, const FunctionT &function);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMSCRATCH_H
