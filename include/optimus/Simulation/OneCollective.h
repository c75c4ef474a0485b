//===- OneCollective.h - A program that is one collective -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SIMULATION_ONECOLLECTIVE_H
#define OPTIMUS_SIMULATION_ONECOLLECTIVE_H

#include "optimus-support/Program.h"

namespace optimus_simulation {

/// The name of its function.
inline constexpr const char *kOneCollective = "collective";

/// A collective of so many bytes of the whole tensor, rounded up to an element
/// of f32 a rank, which every rank waits for at once. It is simulated, never
/// run.
optimus_support::program::ProgramsT
makeOneCollective(optimus_support::program::CollectiveKind kind, int64_t ranks,
                  int64_t bytes);

} // namespace optimus_simulation

#endif // OPTIMUS_SIMULATION_ONECOLLECTIVE_H
