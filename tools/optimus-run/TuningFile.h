//===- TuningFile.h - Fastest products, from run to run ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TUNINGFILE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TUNINGFILE_H

#include "optimus-runtime/Session.h"

#include <memory>
#include <string>

namespace optimus_run {

/// Session::create(), with products tuned by what the file at `path` knows;
/// what it does not know is found out and written there by the root process.
/// Empty for a session that tunes nothing. Collective.
///
/// Errors: those of Session::create(), and InvalidArgument for a file of
/// another kind, which stays as it is.
optrt::StatusOr<std::unique_ptr<optrt::Session>>
createSession(const optrt::ModelLibrary &library, optrt::World &world,
              optrt::SessionOptions options, const std::string &path);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TUNINGFILE_H
