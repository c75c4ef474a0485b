//===- Budget.h - What to recompute within a memory budget ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_BUDGET_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_BUDGET_H

#include "Candidates.h"

namespace mlir::optimus {

/// Chooses the recomputed values one by one, so that a rank of a candidate's
/// layout holds at most `budget` bytes, and fills the prediction in: the
/// fastest that was found to fit, else the smallest.
void predictWithin(ModuleOp module, const PhaseOptions &options, int64_t budget,
                   Candidate &candidate);

/// Why none of the candidates fits the budget, for people: the smallest
/// candidate, its live values at the peak, and the needs of other layouts, for
/// which `predictOther` is called. One of them at least has no problem.
std::string explainBudget(ModuleOp module, const CompileOptions &options,
                          ArrayRef<Candidate> candidates,
                          llvm::function_ref<void(Candidate &)> predictOther);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_BUDGET_H
