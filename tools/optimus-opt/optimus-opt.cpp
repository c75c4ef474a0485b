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
#include "optimus/Tool/MlirFlags.h"
#include "optimus/Tool/Tool.h"

#include "optimus-support/HelpText.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/PathUse.h"
#include "optimus-support/ScratchFolder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <utility>

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

namespace {
/// The configuration by the flags, with our tools' additions to every pass
/// manager.
class OptConfig : public MlirOptMainConfig {
public:
  OptConfig() : MlirOptMainConfig(createFromCLOptions()) {
    setPassPipelineSetupFn(
        [addPasses = passPipelineCallback](PassManager &passes) {
          return success(succeeded(addPasses(passes)) &&
                         succeeded(enableReproducer(passes)));
        });
  }

  /// MLIR writes a requested reproducer in place; this makes it write into a
  /// folder of ours.
  Status redirectReproducer() {
    if (generateReproducerFileFlag.empty())
      return optimus_support::okStatus();
    OPTRT_ASSIGN_OR_RETURN(
        scratch, optimus_support::ScratchFolder::create("optimus-opt"));
    reproducer =
        std::exchange(generateReproducerFileFlag, scratch->file("module.mlir"));
    return optimus_support::okStatus();
  }

  /// Puts it where it belongs, if it was written.
  Status publishReproducer() const {
    if (!scratch || !llvm::sys::fs::exists(generateReproducerFileFlag))
      return optimus_support::okStatus();
    OPTRT_ASSIGN_OR_RETURN(
        std::string text,
        optimus_support::readInput(generateReproducerFileFlag, kMostBytes));
    return optimus_support::OutputFile::write(reproducer, text);
  }

  /// Every file that is written, but for those below
  /// --mlir-print-ir-tree-dir.
  std::vector<PathUse> getOutputs() const {
    std::vector<PathUse> outputs{{"-o", outputPath}};
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

private:
  static constexpr size_t kMostBytes = size_t(1) << 32;

  /// Where the user wants what --mlir-generate-reproducer writes.
  std::string reproducer;
  std::unique_ptr<optimus_support::ScratchFolder> scratch;
};
} // namespace

/// Reads, runs and writes. Returns an exit code.
static int run(DialectRegistry &registry, OptConfig &config) {
  std::vector<PathUse> outputs = config.getOutputs();
  for (const PathUse &output : outputs)
    if (Status status = optimus_support::checkOutput(output.path); !status.ok())
      return fail(status);
  if (Status status = optimus_support::checkOutputsApart(
          std::vector<PathUse>{{"the input", inputPath}}, outputs);
      !status.ok())
    return fail(status);
  StatusOr<std::unique_ptr<llvm::MemoryBuffer>> text = readProgram(inputPath);
  if (!text.ok())
    return fail(text.status());
  StatusOr<std::unique_ptr<OutputStream>> output =
      OutputStream::open(outputPath);
  if (!output.ok())
    return fail(output.status());
  if (Status status = config.redirectReproducer(); !status.ok())
    return fail(status);
  // What went wrong is printed there.
  LogicalResult done =
      MlirOptMain(**output, *std::move(text), registry, config);
  if (Status status = config.publishReproducer(); !status.ok())
    return fail(status);
  if (failed(done))
    return kBadInput;
  Status written = (*output)->commit();
  return written.ok() ? kDone : fail(written);
}

int main(int argc, char **argv) {
  return runTool("optimus-opt", argc, argv, [&]() -> int {
    DialectRegistry registry;
    registerAllDialects(registry);
    // Every program has functions. When the parser meets the first, MLIR has
    // registered what prints errors, and nothing has been verified.
    registry.addExtension(+[](MLIRContext *context, func::FuncDialect *) {
      prefixDiagnosticsWithPaths(*context);
    });
    registerAllPasses();
    registerCLIOptions("optimus-opt", registry);
    declareReproducerFlags();
    declareTraceFlag();
    auto isOurs = [](const cl::Option &option) {
      return llvm::is_contained(kListed, option.ArgStr);
    };
    if (std::optional<int> code = parseCommandLine(
            argc, argv,
            {.name = "optimus-opt",
             .summary = "runs passes on IR, as mlir-opt does",
             .input = "FILE.mlir",
             .isOurs = isOurs,
             .more = "\n" + listMlirFlags() + "\n" + listOurPasses()}))
      return *code;
    setContextFlags();
    OptConfig config;
    if (config.shouldShowDialects()) {
      llvm::outs() << "Available Dialects: "
                   << llvm::join(registry.getDialectNames(), ",") << "\n";
      return kDone;
    }
    if (config.shouldListPasses()) {
      printRegisteredPasses();
      return kDone;
    }
    return run(registry, config);
  });
}
