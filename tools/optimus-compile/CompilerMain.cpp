//===- CompilerMain.cpp - From a program to a model library -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Flags.h"
#include "Requests.h"

#include "optimus/Compiler/Invocation.h"
#include "optimus/InitOptimus.h"
#include "optimus/Tool/CompilerMain.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/MlirFlags.h"
#include "optimus/Tool/Tool.h"

#ifdef OPTIMUS_HAS_MIMALLOC
#include <mimalloc.h>
#endif

using namespace mlir;
using namespace mlir::optimus;

static void print(const CompileMessage &message) {
  if (message.place)
    printBriefly(*message.place);
  else if (message.kind == CompileMessage::Kind::Progress)
    llvm::errs() << kTool << ": " << message.text << "\n";
  else
    fail(message.text,
         message.kind == CompileMessage::Kind::Fault ? kOurFault : kBadInput);
}

static int run(CompileSettings settings, const DialectRegistry &extensions) {
  setContextFlags();
  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();
  Invocation invocation;
  invocation.report =
      settings.takesStandardOutput() ? &llvm::errs() : &llvm::outs();
  invocation.settings = std::move(settings);
  invocation.extensions = &extensions;
  invocation.listener = print;
  invocation.reportsOwnMachine = true;
  invocation.mlir = {.preparePasses = applyMlirFlags,
                     .reproducer = getReproducerPath(),
                     .printsOperations = printsOpOnDiagnostic(),
                     .timing = &timing};
  invocation.endsProcess = true;
  return compile(invocation).exitCode();
}

/// Passes free and allocate the same gigabytes in turn: to give them back to
/// the system in between costs a tenth of a compilation, and to look for them
/// page by page of 4 KiB as much again.
static void keepFreedMemory() {
#ifdef OPTIMUS_HAS_MIMALLOC
  mi_option_enable(mi_option_large_os_pages);
  mi_option_disable(mi_option_allow_decommit);
  mi_option_disable(mi_option_page_reset);
#endif
}

int mlir::optimus::compilerMain(int argc, char **argv,
                                const DialectRegistry &extensions) {
  auto compileOnce = [&](int count, char **words) {
    return runTool(kTool, count, words, [&] {
      keepFreedMemory();
      registerAllPasses();
      CompileSettings settings;
      std::optional<int> code = parseCompileCommandLine(count, words, settings);
      return code ? *code : run(std::move(settings), extensions);
    });
  };
  if (argc == 2 && StringRef(argv[1]) == kRequests)
    return answerRequests(compileOnce);
  return compileOnce(argc, argv);
}
