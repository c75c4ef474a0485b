//===- Candidates.h - Layouts to choose from -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_CANDIDATES_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_CANDIDATES_H

#include "Options.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <vector>

namespace mlir::optimus {

/// A mesh, a strategy and a policy of recomputation, and what is predicted of a
/// training step.
struct Candidate {
  MeshOption mesh;
  std::string strategy;
  std::string recompute = "none";
  /// Why it cannot be compiled; empty if it can.
  std::string problem = {};
  /// Whether that is a fault of ours: a phase takes what others of ours make.
  bool isFault = false;
  double stepMs = 0, exposedMs = 0;
  /// Sent by all ranks, as the manifest counts it.
  int64_t commBytes = 0;
  /// What the largest rank holds: parameters, optimizer state, inputs, arena.
  int64_t rankBytes = 0;
};

/// Every strategy on every mesh of `ranks` ranks that it can use, the axes of
/// one rank included. An axis that only replicates is `data`.
std::vector<Candidate> listCandidates(int64_t ranks);
/// Every strategy that can use all of `mesh`.
std::vector<Candidate> listCandidates(const MeshOption &mesh);

/// Each of the candidates with each of the policies.
std::vector<Candidate> withPolicies(llvm::ArrayRef<Candidate> candidates,
                                    llvm::ArrayRef<llvm::StringRef> policies);

/// Compiles a copy of `module` as far as its device programs, whose memory is
/// placed and whose time is predicted, and fills the prediction in.
void predict(ModuleOp module, PhaseOptions options, Candidate &candidate);

/// The fastest candidate whose rank holds no more than `budget` bytes, if that
/// is given; nothing if there is none.
std::optional<Candidate> choose(llvm::ArrayRef<Candidate> candidates,
                                std::optional<int64_t> budget);

/// Chooses mesh, strategy and policy by what is predicted of all that come into
/// question, and prints the table. Returns an exit code.
int chooseLayout(ModuleOp module, CompileOptions &options);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_CANDIDATES_H
