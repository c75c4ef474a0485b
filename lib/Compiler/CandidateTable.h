//===- CandidateTable.h - Candidates, for people ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_CANDIDATETABLE_H
#define OPTIMUS_LIB_COMPILER_CANDIDATETABLE_H

#include "optimus/Planning/LayoutChoice.h"

namespace mlir::optimus {

/// Prints all candidates, the fastest first, and marks the chosen one.
void printCandidates(std::vector<Candidate> candidates,
                     const std::optional<Candidate> &chosen,
                     std::optional<int64_t> budget, llvm::raw_ostream &out);
/// Prints what was weighed of single functions, if anything was.
void printEntries(ArrayRef<EntryLayout> entries, llvm::raw_ostream &out);

/// Prints the simulations on a cluster, the fastest first, and whether they
/// have changed the choice; nothing where there are none.
void printFinalists(ArrayRef<Finalist> finalists, llvm::raw_ostream &out);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_CANDIDATETABLE_H
