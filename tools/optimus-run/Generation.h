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

namespace optimus_run {

/// A session of a library's functions for generation, with its parameters.
/// Collective; the root says what is otherwise than the checkpoint's run.
optrt::StatusOr<std::unique_ptr<optrt::Session>>
createGeneration(const optrt::ModelLibrary &library,
                 const optrt::GenerationEntries &entries,
                 const GenerationSource &source, optrt::World &world);

/// InvalidArgument in every process where their prompts differ. Collective.
optrt::Status
compareRequests(std::span<const optrt::GenerationRequest> requests,
                optrt::ControlPlane &control);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_GENERATION_H
