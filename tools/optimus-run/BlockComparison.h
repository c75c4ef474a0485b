//===- BlockComparison.h - Weights of few bits and parameters ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_BLOCKCOMPARISON_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_BLOCKCOMPARISON_H

#include "GradientComparison.h"
#include "optimus-runtime/Session.h"

namespace optimus_run {

/// The functions of a library that make blocks of few bits.
std::vector<const optrt::Function *>
findBlockPreparers(const optrt::ModelLibrary &library);

/// Compares blocks with the parameters that they are made of: no element is
/// further off than its block's scale allows (optimus-support/WeightBlocks.h).
/// The session has chosen these functions, and others with the same parameters.
/// Norms are over the ranks of this process, those of bounds too.
optrt::StatusOr<std::vector<TensorComparison>>
compareBlocks(optrt::Session &session);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_BLOCKCOMPARISON_H
