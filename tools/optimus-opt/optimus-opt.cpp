//===- optimus-opt.cpp - Runs passes on IR files ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mlir-opt with our dialects and passes, whose files are handled as those of
// all our tools are.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/InitOptimus.h"
#include "optimus/Tool/CommandLine.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/Tool.h"

#include "optimus-support/PathUse.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::PathUse;
using optimus_support::Status;
using optimus_support::StatusOr;
namespace cl = llvm::cl;

static cl::opt<std::string> inputPath(cl::Positional, cl::init("-"),
                                      cl::desc("<input file>"));
static cl::opt<std::string> outputPath("o", cl::init("-"),
                                       cl::value_desc("file"),
                                       cl::desc("Where to write the IR "
                                                "(default: standard output)"));

/// What of mlir-opt's many flags most people use.
static constexpr StringLiteral kListed[] = {
    "allow-unregistered-dialect",
    "list-passes",
    "mlir-disable-threading",
    "mlir-print-ir-after-all",
    "mlir-print-ir-before-all",
    "mlir-timing",
    "o",
    "pass-pipeline",
    "show-dialects",
    "split-input-file",
    "verify-diagnostics",
    "verify-each",
    "verify-roundtrip",
};

static constexpr StringLiteral kOurPasses = "optimus-";

/// Our passes, with what each does.
static std::string listOurPasses() {
  SmallVector<const PassInfo *> passes;
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (name.starts_with(kOurPasses))
      if (const PassInfo *pass = PassInfo::lookup(name))
        passes.push_back(pass);
  llvm::sort(passes, [](const PassInfo *a, const PassInfo *b) {
    return a->getPassArgument() < b->getPassArgument();
  });
  std::string text = "\nPasses, in the order in which they are given:\n\n";
  for (const PassInfo *pass : passes)
    text += describeFlag(("--" + pass->getPassArgument()).str(),
                         pass->getPassDescription());
  return text + "\n--list-passes lists MLIR's passes too, and all options of "
                "passes.\n";
}

/// Reads, runs and writes. Returns an exit code.
static int run(DialectRegistry &registry) {
  if (Status status = optimus_support::checkOutputsApart(
          std::vector<PathUse>{{"the input", inputPath}},
          std::vector<PathUse>{{"-o", outputPath}});
      !status.ok())
    return fail(status);
  StatusOr<std::unique_ptr<llvm::MemoryBuffer>> text = readProgram(inputPath);
  if (!text.ok())
    return fail(text.status());
  StatusOr<std::unique_ptr<OutputStream>> output =
      OutputStream::open(outputPath);
  if (!output.ok())
    return fail(output.status());
  MlirOptMainConfig given = MlirOptMainConfig::createFromCLOptions();
  MlirOptMainConfig config = given;
  // MLIR has registered by then what prints errors.
  config.setPassPipelineSetupFn([&](PassManager &passes) {
    prefixDiagnosticsWithPaths(*passes.getContext());
    return given.setupPassPipeline(passes);
  });
  // What went wrong is printed there.
  if (failed(MlirOptMain(**output, *std::move(text), registry, config)))
    return kBadInput;
  Status written = (*output)->commit();
  return written.ok() ? kDone : fail(written);
}

/// Sets a flag of MLIR's that the user has not given.
static void setFlag(StringRef name, StringRef value) {
  cl::Option *flag = cl::getRegisteredOptions().lookup(name);
  if (flag && flag->getNumOccurrences() == 0)
    flag->addOccurrence(0, name, value, /*MultiArg=*/true);
}

int main(int argc, char **argv) {
  return runTool("optimus-opt", argc, argv, [&]() -> int {
    DialectRegistry registry;
    registerAllDialects(registry);
    registerAllPasses();
    registerCLIOptions("optimus-opt", registry);
    auto isOurs = [](const cl::Option &option) {
      return llvm::is_contained(kListed, option.ArgStr);
    };
    if (std::optional<int> code =
            parseCommandLine(argc, argv,
                             {.name = "optimus-opt",
                              .summary = "runs passes on IR, as mlir-opt does",
                              .input = "FILE.mlir",
                              .needsInput = false,
                              .isOurs = isOurs,
                              .more = listOurPasses()}))
      return *code;
    // MLIR makes the context, and takes this from flags.
    if (chooseThreading() == MLIRContext::Threading::DISABLED)
      setFlag("mlir-disable-threading", "true");
    // The line is quoted; the operation may be the whole program.
    setFlag("mlir-print-op-on-diagnostic", "false");
    MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
    if (config.shouldShowDialects()) {
      llvm::outs() << "Available Dialects: "
                   << llvm::join(registry.getDialectNames(), ",") << "\n";
      return kDone;
    }
    if (config.shouldListPasses()) {
      printRegisteredPasses();
      return kDone;
    }
    return run(registry);
  });
}
