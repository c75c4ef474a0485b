//===- IrFuzzer.cpp - IR of any phase -------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An input is IR. A first line "// MESH STRATEGY PHASE" says what it is
// compiled for and after which phase it was written. The rest of the pipeline,
// up to the LLVM dialect, must refuse it with a diagnostic or compile it.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/Strategy.h"
#include "optimus/InitOptimus.h"
#include "optimus/Pipelines/Phases.h"

#include "optimus-support/Nesting.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"

#include <cstdlib>

using namespace mlir;
using namespace mlir::optimus;

/// More ranks take long and find nothing else.
static constexpr int64_t kMostRanks = 64;

static PhaseOptions readOptions(StringRef text, std::string &phase) {
  PhaseOptions options;
  SmallVector<StringRef> words;
  StringRef line = text.split('\n').first;
  if (line.consume_front("// "))
    llvm::SplitString(line, words);
  words.resize(3);
  auto mesh = MeshOption::parse(words[0]);
  if (!mesh || mesh->getNumRanks() > kMostRanks) {
    if (!mesh)
      llvm::consumeError(mesh.takeError());
    mesh = MeshOption::parse("row:2,col:2");
  }
  options.mesh = *mesh;
  options.strategy = llvm::is_contained(getKnownStrategies(), words[1])
                         ? words[1].str()
                         : "summa";
  phase = words[2].str();
  return options;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef text(reinterpret_cast<const char *>(data), size);
  // As the tools do, whose parser recurses.
  if (!optimus_support::checkNesting(text, "mutant").ok())
    return 0;
  static const DialectRegistry &registry = *[] {
    registerAllPasses();
    auto *all = new DialectRegistry();
    registerAllDialects(*all);
    return all;
  }();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  bool isExplained = false;
  ScopedDiagnosticHandler quiet(&context, [&](Diagnostic &diagnostic) {
    isExplained |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return 0;
  std::string start;
  PhaseOptions options = readOptions(text, start);
  bool runs = llvm::none_of(
      getPhases(), [&](const Phase &phase) { return phase.name == start; });
  for (const Phase &phase : getPhases()) {
    if (!runs) {
      runs = phase.name == start;
      continue;
    }
    auto passes = PassManager::on<ModuleOp>(&context);
    phase.addPasses(passes, options);
    if (succeeded(passes.run(*module)))
      continue;
    if (!isExplained)
      std::abort();
    return 0;
  }
  return 0;
}
