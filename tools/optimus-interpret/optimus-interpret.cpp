//===- optimus-interpret.cpp - Executes programs ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 done, 1 the program or its arguments are wrong, or a check that
// was asked for fails.
//
//===----------------------------------------------------------------------===//

#include "Execution.h"
#include "Flags.h"

#include "optimus/InitOptimus.h"
#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/Threading.h"
#include "optimus/Tool/Tool.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::Status;

/// Everything but the flags.
static int interpretProgram(const Flags &flags) {
  auto sources = readSources(flags);
  if (!sources.ok())
    return fail(sources.status());
  DialectRegistry registry;
  registerAllDialects(registry);
  registerInterpreterModels(registry);
  exec::registerDeviceInterpreterModels(registry);
  MLIRContext context(registry, chooseThreading());
  context.printOpOnDiagnostic(false);

  llvm::SourceMgr sourceManager;
  if (Status status = readProgram(flags.input, sourceManager); !status.ok())
    return fail(status);
  SourceMgrDiagnosticHandler handler(sourceManager, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sourceManager, &context);
  return module ? execute(*module, *sources, flags) : kBadInput;
}

/// Reads the flags, and does what they say.
static int runWith(std::vector<std::string> arguments) {
  Flags flags;
  auto asked = parseFlags(std::move(arguments), flags);
  if (!asked.ok())
    return fail(asked.status());
  llvm::outs() << *asked;
  return asked->empty() ? interpretProgram(flags) : kDone;
}

int main(int argc, char **argv) {
  return runTool("optimus-interpret", argc, argv, [&] {
    return runWith({argv + 1, argv + argc});
  });
}
