//===- optimus-lsp-server.cpp - Language server for our dialects --*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/InitOptimus.h"
#include "optimus/Tool/CommandLine.h"
#include "optimus/Tool/Tool.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::optimus;
namespace cl = llvm::cl;

/// MLIR's main declares its flags when it runs. To answer --help and to find
/// mistakes before, they are declared here as well, and taken back.
static std::optional<int> checkFlags(int argc, char **argv) {
  cl::opt<std::string> inputStyle(
      "input-style", cl::value_desc("style"),
      cl::desc("How JSON comes in: standard (default), or delimited"));
  cl::opt<bool> litTest(
      "lit-test",
      cl::desc("Short for --input-style=delimited --pretty --log=verbose"));
  cl::opt<std::string> log(
      "log", cl::value_desc("level"),
      cl::desc("What is said on standard error: error, info (default) or "
               "verbose"));
  cl::opt<bool> pretty("pretty", cl::desc("Write JSON in several lines"));
  cl::Option *flags[] = {&inputStyle, &litTest, &log, &pretty};
  auto isOurs = [&](const cl::Option &option) {
    return llvm::is_contained(flags, &option);
  };
  std::optional<int> code = checkCommandLine(
      argc, argv,
      {.name = "optimus-lsp-server",
       .summary = "helps editors with our dialects, over standard streams",
       .isOurs = isOurs});
  for (cl::Option *flag : flags)
    flag->removeArgument();
  return code;
}

int main(int argc, char **argv) {
  return runTool("optimus-lsp-server", argc, argv, [&]() -> int {
    if (std::optional<int> code = checkFlags(argc, argv))
      return *code;
    DialectRegistry registry;
    registerAllDialects(registry);
    return failed(MlirLspServerMain(argc, argv, registry)) ? kBadInput : kDone;
  });
}
