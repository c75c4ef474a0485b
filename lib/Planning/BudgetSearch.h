//===- BudgetSearch.h - What to recompute within a memory budget -*- C++ -*-==//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_BUDGETSEARCH_H
#define OPTIMUS_LIB_PLANNING_BUDGETSEARCH_H

#include "optimus/Planning/LayoutChoice.h"

namespace mlir::optimus {

/// Chooses the recomputed values one by one, so that a rank of a candidate's
/// layout holds at most the budget of `question`, and fills the prediction in:
/// the fastest that was found to fit, else the smallest. A policy's choice is
/// not compiled again where the layout is `known` with that policy.
void predictWithin(ModuleOp module, const LayoutQuestion &question,
                   llvm::ArrayRef<Candidate> known, const ProgressFn &progress,
                   Candidate &candidate);

/// Why none of the candidates fits the budget, for people: the smallest
/// candidate, its live values at the peak, and the needs of other layouts, for
/// which `predictOther` is called. One of them at least has no problem.
std::string explainBudget(ModuleOp module, const LayoutQuestion &question,
                          ArrayRef<Candidate> candidates,
                          const ProgressFn &progress,
                          llvm::function_ref<void(Candidate &)> predictOther);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_BUDGETSEARCH_H
