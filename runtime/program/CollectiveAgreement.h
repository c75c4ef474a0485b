//===- CollectiveAgreement.h - That ranks start the same --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_COLLECTIVEAGREEMENT_H
#define OPTIMUS_RUNTIME_PROGRAM_COLLECTIVEAGREEMENT_H

#include "optimus-runtime/ControlPlane.h"
#include "optimus-support/Program.h"

#include <span>
#include <string>

namespace optrt {

/// Checks that the ranks of all processes start common collectives in the same
/// order in these functions of every process: each has opened a library of its
/// own. Processes send digests, and lists only where these differ. Collective.
///
/// Errors, the same in every process: InvalidArgument with the first collective
/// in which two ranks differ.
Status agreeOnCollectives(ControlPlane &control,
                          const optimus_support::program::TargetT &target,
                          const optimus_support::Mesh &mesh,
                          std::span<const std::string> functions);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_COLLECTIVEAGREEMENT_H
