//===- Flags.cpp - The flags of optimus-opt ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Flags.h"

#include "optimus/Tool/CommandLine.h"
#include "optimus/Tool/MlirFlags.h"

#include "optimus-support/HelpText.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::optimus;
namespace cl = llvm::cl;

static cl::opt<std::string> inputFlag(cl::Positional, cl::init("-"),
                                      cl::desc("<input file>"));
static cl::opt<std::string> outputFlag("o", cl::init("-"),
                                       cl::value_desc("file"),
                                       cl::desc("Where to write the IR "
                                                "(default: standard output)"));

/// What of mlir-opt's many flags most people use.
static constexpr StringLiteral kListed[] = {
    "allow-unregistered-dialect",
    "list-passes",
    "o",
    "pass-pipeline",
    "show-dialects",
    "split-input-file",
    "verify-diagnostics",
    "verify-each",
    "verify-roundtrip",
};

static constexpr StringLiteral kOurPasses = "optimus-";

/// Our passes and pipelines, with what each does.
static std::string listOurPasses() {
  SmallVector<const PassRegistryEntry *> passes;
  for (auto &[name, option] : cl::getRegisteredOptions()) {
    if (!name.starts_with(kOurPasses))
      continue;
    if (const PassInfo *pass = PassInfo::lookup(name))
      passes.push_back(pass);
    else if (const auto *pipeline = PassPipelineInfo::lookup(name))
      passes.push_back(pipeline);
  }
  llvm::sort(passes,
             [](const PassRegistryEntry *a, const PassRegistryEntry *b) {
               return a->getPassArgument() < b->getPassArgument();
             });
  std::string text = "\nPasses, in the order in which they are given:\n\n";
  for (const PassRegistryEntry *pass : passes)
    text += optimus_support::describeFlag(
        ("--" + pass->getPassArgument()).str(), pass->getPassDescription());
  return text + "\n--list-passes lists MLIR's passes too, and all options of "
                "passes.\n";
}

std::optional<int> mlir::optimus::parseFlags(int argc, char **argv,
                                             DialectRegistry &registry) {
  registerCLIOptions("optimus-opt", registry);
  declareReproducerFlags();
  declareTraceFlag();
  auto isOurs = [](const cl::Option &option) {
    return llvm::is_contained(kListed, option.ArgStr);
  };
  return parseCommandLine(
      argc, argv,
      {.name = "optimus-opt",
       .summary = "runs passes on IR, as mlir-opt does",
       .input = "FILE.mlir",
       .isOurs = isOurs,
       .more = "\n" + listMlirFlags() + "\n" + listOurPasses()});
}

std::string mlir::optimus::getInputPath() { return inputFlag; }

std::string mlir::optimus::getOutputPath() { return outputFlag; }
