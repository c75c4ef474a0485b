//===- Divergence.h - Why a step is not finite ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_DIVERGENCE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_DIVERGENCE_H

#include "TrainSaves.h"

#include <string>

namespace optimus_run {

/// More steps are not taken again: it would take too long.
inline constexpr int64_t kMostStepsAgain = 1000;

/// Takes the steps after a state again, up to `step`, whose loss or gradient is
/// not finite. Names its first command with a result that is not finite, and
/// the rank. Collective; no other session must be there. Fails where steps
/// cannot be taken.
optrt::StatusOr<std::string>
whyNotFinite(const TrainOptions &options, const TrainFiles &files,
             optrt::World &world, const SavedState &before, int64_t step);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_DIVERGENCE_H
