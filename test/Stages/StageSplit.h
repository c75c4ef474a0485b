//===- StageSplit.h - A program as two stages of a pipeline -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes two stages of a serial library of a transformer by hand, as a compiler
// of pipelines will: each has a table of its own, with the commands of its
// layers as they are.
//
//   accumulate  →  forward0 | forward1, backward1 | backward0, and messages
//   update      →  update0 | update1
//   prepare     →  prepare0 | prepare1
//
// Stages send each other what the other's commands read of theirs. The arena of
// accumulate becomes a buffer, a slot, of which each microbatch has one: it
// keeps the activations from its forward to its backward.
//
// In GPipe's order all forwards come before all backwards. In 1F1B's a stage
// makes one forward and one backward in turn, so at most two slots are in use;
// both stages send and receive at once then, in a group:
//
//   first   F0 send     F1 exchange B0  F2 exchange B1  …  receive B3
//   second  receive F0 B0 exchange      F1 B1 exchange  …  F3 B3 send
//
// Norms of gradients are those of a stage, so nothing may be clipped by them.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TEST_STAGES_STAGESPLIT_H
#define OPTIMUS_TEST_STAGES_STAGESPLIT_H

#include "optimus-runtime/ModelLibrary.h"

#include <cstdint>
#include <string>

namespace optimus_stages {

enum class Order { GPipe, OneForwardOneBackward };

struct Stages {
  std::string manifest;
  optimus_support::program::ProgramsT programs;
};

/// Splits a serial library with accumulate and update, for an order of so many
/// microbatches, 2 at least, as the sequence "train_microbatches". Its mesh is
/// that of the library with pipe:2 before it. The first stage ends with the
/// block `lastOfFirst`, as "model.layers.0".
///
/// Errors: InvalidArgument for a library of another form.
optrt::StatusOr<Stages> split(const optrt::ModelLibrary &library,
                              const std::string &lastOfFirst,
                              uint32_t microbatches, Order order);

} // namespace optimus_stages

#endif // OPTIMUS_TEST_STAGES_STAGESPLIT_H
