//===- OptConfig.cpp - What optimus-opt adds to that of MLIR ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OptConfig.h"

#include "Flags.h"

#include "optimus/Tool/MlirFlags.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

#include <utility>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::PathUse;
using optimus_support::Status;

/// Of a reproducer.
static constexpr size_t kMostBytes = size_t(1) << 32;

OptConfig::OptConfig() : MlirOptMainConfig(createFromCLOptions()) {
  setPassPipelineSetupFn(
      [addPasses = passPipelineCallback](PassManager &passes) {
        return success(succeeded(addPasses(passes)) &&
                       succeeded(enableReproducer(passes)));
      });
}

Status OptConfig::redirectReproducer() {
  if (generateReproducerFileFlag.empty())
    return optimus_support::okStatus();
  OPTRT_ASSIGN_OR_RETURN(scratch,
                         optimus_support::ScratchFolder::create("optimus-opt"));
  reproducer =
      std::exchange(generateReproducerFileFlag, scratch->file("module.mlir"));
  return optimus_support::okStatus();
}

Status OptConfig::publishReproducer() const {
  if (!scratch || !llvm::sys::fs::exists(generateReproducerFileFlag))
    return optimus_support::okStatus();
  OPTRT_ASSIGN_OR_RETURN(
      std::string text,
      optimus_support::readInput(generateReproducerFileFlag, kMostBytes));
  return optimus_support::OutputFile::write(reproducer, text);
}

std::vector<PathUse> OptConfig::getOutputs() const {
  std::vector<PathUse> outputs{{"-o", getOutputPath()}};
  auto add = [&](const char *flag, StringRef path) {
    if (!path.empty())
      outputs.push_back({flag, path.str()});
  };
  add("--mlir-pass-pipeline-crash-reproducer", getReproducerPath());
  add("--mlir-generate-reproducer", getReproducerFilename());
  add("--remarks-output-file", getRemarksOutputFile());
  add("--log-actions-to", getDebugConfig().getLogActionsTo());
  add("--profile-actions-to", getDebugConfig().getProfileActionsTo());
  return outputs;
}
