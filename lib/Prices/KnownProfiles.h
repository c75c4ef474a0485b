//===- KnownProfiles.h - Machine profiles of GPUs ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The files of Profiles/ as part of the library, so that it needs none of
// them. docs/machine-profiles.md says where their figures come from.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PRICES_KNOWNPROFILES_H
#define OPTIMUS_LIB_PRICES_KNOWNPROFILES_H

#include <string>
#include <string_view>

namespace optimus_prices {

/// The text of a profile whose name is known, with nodes of as many GPUs as the
/// name says.
std::string getKnownProfile(std::string_view name);

/// Why a name is none, with those that are.
std::string explainKnownProfiles(std::string_view name);

} // namespace optimus_prices

#endif // OPTIMUS_LIB_PRICES_KNOWNPROFILES_H
