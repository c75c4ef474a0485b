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

#include "Flags.h"
#include "OptConfig.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/InitOptimus.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/MlirFlags.h"
#include "optimus/Tool/Tool.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::PathUse;
using optimus_support::Status;
using optimus_support::StatusOr;

static int run(DialectRegistry &registry, OptConfig &config) {
  std::vector<PathUse> outputs = config.getOutputs();
  for (const PathUse &output : outputs)
    if (Status status = optimus_support::checkOutput(output.path); !status.ok())
      return fail(status);
  if (Status status = optimus_support::checkOutputsApart(
          std::vector<PathUse>{{"the input", getInputPath()}}, outputs);
      !status.ok())
    return fail(status);
  StatusOr<std::unique_ptr<llvm::MemoryBuffer>> text =
      readProgram(getInputPath());
  if (!text.ok())
    return fail(text.status());
  StatusOr<std::unique_ptr<OutputStream>> output =
      OutputStream::open(getOutputPath());
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
    if (std::optional<int> code = parseFlags(argc, argv, registry))
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
