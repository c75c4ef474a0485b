//===- Generation.h - What generates and scores texts -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_GENERATION_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_GENERATION_H

#include "Commands.h"
#include "optimus-runtime/Generator.h"

#include <functional>
#include <memory>

namespace optimus_run {

/// A library's functions for generation, and what is asked of them.
struct GenerationPlan {
  std::unique_ptr<optrt::ModelLibrary> library;
  optrt::GenerationEntries entries;
  /// Those to be called, with their preparers.
  std::vector<std::string> functions;
  std::vector<optrt::GenerationRequest> requests;

  /// Opens the library, which must have the functions of generation.
  optrt::Status open(const std::string &path, const RankOptions &ranks);
};

/// Tokens as bytes: of models with a token a byte.
std::string toText(std::span<const int32_t> tokens);

/// A hash of prompts and of what is asked for behind them.
std::string hashOf(std::span<const optrt::GenerationRequest> requests);

/// The bytes that a call of `decode` reads on all ranks together: of B what
/// products read, and so many tokens of the cache, of all slots together.
double bytesOfDecode(const optrt::ModelLibrary &library,
                     const optrt::Function &decode,
                     const optrt::CacheExtents &cache, int64_t tokens);

/// Runs a plan in a session with the parameters of `source`. Collective; what
/// was planned, or why it was not, is agreed first, and requests must be alike.
/// The root says what is otherwise than the checkpoint's run.
optrt::Status
withGeneration(optrt::Status planned, const GenerationPlan &plan,
               const GenerationSource &source, optrt::World &world,
               const std::function<optrt::Status(optrt::Session &)> &run);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_GENERATION_H
