//===- Phases.cpp - The phases of a compilation -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Pipelines/Phases.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;

/// As an option of a pass; nothing for the built-in profile.
static std::string getProfileOption(const PhaseOptions &options) {
  return options.machineProfile.empty()
             ? ""
             : " machine-profile=\"" + options.machineProfile + "\"";
}

static std::string getTunePasses(const PhaseOptions &options) {
  if (options.move.empty())
    return "";
  return llvm::formatv("func.func(optimus-group-products,"
                       "optimus-tune-products{{move={0} panels={1}{2}},"
                       "optimus-verify-partition)",
                       options.move, options.panels, getProfileOption(options))
      .str();
}

std::vector<Phase> mlir::optimus::getPhases(const PhaseOptions &options) {
  std::string shard =
      llvm::formatv("optimus-shard{{mesh={0} strategy={1} layouts=\"{2}\"{3}}",
                    options.mesh.toString(), options.strategy, options.layouts,
                    options.pad ? "" : " no-pad=true")
          .str();
  return {
      {"differentiate", "optimus-differentiate", true},
      {"step",
       llvm::formatv("optimus-build-step{{optimizer={0}{1}}", options.optimizer,
                     options.accumulate ? " accumulate=true" : "")
           .str(),
       true},
      {"shard", shard, true},
      {"partition", "optimus-partition,func.func(optimus-verify-partition)",
       true},
      {"tune", getTunePasses(options), true},
      {"fuse",
       // Canonicalized again: the forward need not make what is made again.
       llvm::formatv("canonicalize,cse,func.func(optimus-recompute{{policy={0}}"
                     "),canonicalize,func.func(optimus-fuse,"
                     "optimus-group-products)",
                     options.recompute)
           .str(),
       false},
      {"exec", "optimus-to-exec", false},
      {"schedule",
       llvm::formatv("func.func(optimus-schedule{{mode={0} "
                     "extra-workspace={1}{2}})",
                     options.schedule, options.extraWorkspace,
                     getProfileOption(options))
           .str(),
       false},
      {"place",
       "func.func(optimus-place-buffers,optimus-order-commands,"
       "optimus-verify-exec)",
       false},
      // Verified again: --compile-from starts here.
      {"llvm", "func.func(optimus-verify-exec),optimus-exec-to-llvm", false},
  };
}
