//===- DeviceFlags.h - How ranks' devices do things -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_DEVICEFLAGS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_DEVICEFLAGS_H

#include "Commands.h"

#include <CLI/App.hpp>

namespace optimus_run {

/// Options of subcommands that run a library: how its device works.
void addDeviceFlags(CLI::App *app, RankOptions &ranks);
/// Throws a CLI::ParseError where one was given to `app` beside `what`, which
/// runs no library.
void refuseDeviceFlags(const CLI::App &app, const char *what);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_DEVICEFLAGS_H
