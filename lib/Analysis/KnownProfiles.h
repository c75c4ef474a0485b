//===- KnownProfiles.h - Machine profiles of GPUs ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The files of Profiles/ as part of the compiler, so that it needs none of
// them. docs/machine-profiles.md says where their figures come from.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_ANALYSIS_KNOWNPROFILES_H
#define OPTIMUS_LIB_ANALYSIS_KNOWNPROFILES_H

#include "mlir/Support/LLVM.h"

#include <string>

namespace mlir::optimus {

/// The text of a profile whose name is known, with nodes of as many GPUs as the
/// name says.
std::string getKnownProfile(StringRef name);

/// Why a name is none, with those that are.
std::string explainKnownProfiles(StringRef name);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_ANALYSIS_KNOWNPROFILES_H
