//===- DeviceFlags.cpp - How ranks' devices do things ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceFlags.h"

namespace optimus_run {

static constexpr const char *kGroup = "Device (docs/cuda.md)";

void addDeviceFlags(CLI::App *app, RankOptions &ranks) {
  app->add_flag("--eager", ranks.eager,
                "Wait for each command before the next one, and record no "
                "step: what fails is named, and slower")
      ->group(kGroup);
  app->add_flag("--nvtx", ranks.nvtx,
                "Name functions and commands for Nsight Systems")
      ->group(kGroup);
  app->add_flag("--tf32", ranks.computing.tf32,
                "On GPUs: let products of f32 round their factors to TF32, "
                "for tensor cores")
      ->group(kGroup);
  app->add_flag("--flush-subnormals", ranks.computing.flushesSubnormals,
                "On processors: take numbers below 1.2e-38 for zero, where "
                "they make steps slow")
      ->group(kGroup);
  app->add_option(
         "--tune", ranks.tune,
         "On GPUs: FILE of the fastest algorithms for products; others are "
         "found out first")
      ->group(kGroup);
}

void refuseDeviceFlags(const CLI::App &app, const char *what) {
  for (const CLI::Option *option : app.get_options())
    if (option->get_group() == kGroup && option->count() != 0)
      throw CLI::ExcludesError(
          optrt::concat("bench ", what, " runs no library, for which ",
                        option->get_name(), " is"),
          CLI::ExitCodes::ExcludesError);
}

} // namespace optimus_run
