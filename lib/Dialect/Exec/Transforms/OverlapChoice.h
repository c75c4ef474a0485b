//===- OverlapChoice.h - The schedule with the best arena -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OVERLAPCHOICE_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OVERLAPCHOICE_H

#include "ScheduledFunction.h"

#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"

namespace mlir::exec {

/// Collectives without computation to overlap with, of these how many for want
/// of workspace, and the most bytes alive at once.
struct OverlapOutcome {
  unsigned notOverlapped = 0, bounded = 0;
  int64_t peakBytes = 0;
};

/// Moves starts up and waits down. What starts early lies in memory for long,
/// and the more lies there the worse it can be placed; so several reaches of
/// OverlapScheduler are tried. Of those predicted to be fastest the one with
/// the fewest bytes is taken, if its arena keeps within the workspace and a
/// 50th of the bytes alive without overlap:
///
///   reach | step, ms | bytes alive | arena    100 bytes alive without overlap,
///     -   |    10.1  |     110     |  119     10 more are allowed: at most 112
///    256  |    10.0  |     109     |  113
///     64  |    10.2  |     104     |  105     -> this one
///
/// Where no arena does, less is asked for. The order is applied.
OverlapOutcome overlapWithin(ScheduledFunction &scheduled,
                             const ExtraWorkspace &workspace);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OVERLAPCHOICE_H
