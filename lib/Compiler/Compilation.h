//===- Compilation.h - Runs the phases --------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_COMPILATION_H
#define OPTIMUS_LIB_COMPILER_COMPILATION_H

#include "GpuKernels.h"
#include "KernelsApart.h"
#include "Options.h"
#include "Reporter.h"

#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Target/CPU/CodeGen.h"
#include "optimus/Target/CPU/ObjectCache.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/Timing.h"

namespace mlir::optimus {

/// Says on the program what no compilation can be made of: tensors of more
/// bytes than sizes are counted with and, where a library is written, a module
/// that does not describe its model.
LogicalResult checkProgram(ModuleOp module, const CompileOptions &options);

/// Runs the phases on one module and writes what was asked for.
class Compilation {
public:
  /// `writer` is needed where a library is written. What phases take is counted
  /// below `timing`.
  Compilation(ModuleOp module, const CompileOptions &options,
              const CpuTarget &target, LibraryWriter *writer,
              const MlirSettings &mlir, Reporter &reporter, TimingScope &timing)
      : module(module), options(options), phases(options.phases),
        target(target), writer(writer), mlir(mlir), reporter(reporter),
        timing(timing) {
    phases.serialProgram = std::make_shared<ccl::SerialProgram>();
    if (options.writesLibrary()) {
      phases.tableCheck = std::make_shared<TableCheck>();
      phases.tableCheck->verifiesCommands = !isSeen("place");
    }
  }

  optimus_support::Status run();

private:
  optimus_support::Status runPhase(const Phase &phase);
  /// A phase's program is verified unless nobody sees it and its operations, or
  /// the tables made of them, are verified later: a million take seconds.
  Verification getVerification(const Phase &phase) const;
  /// Whether somebody reads the program that a phase leaves.
  bool isSeen(StringRef phase) const {
    return options.compileTo == phase || !options.dumpFolder.empty() ||
           !options.compileFrom.empty() || !mlir.reproducer.empty();
  }
  /// Does what is asked for once a phase is over.
  optimus_support::Status finishPhase(StringRef phase);
  /// Begins to compile the kernels, beside the phases that come after "exec":
  /// those of processors unless somebody wants to see, or to repeat, how they
  /// are lowered.
  void startKernels();
  void startImages();
  /// Waits for the kernels that a GPU runs.
  optimus_support::Status finishImages();
  optimus_support::Status writeLibrary();
  optimus_support::Status print(const std::string &path, StringRef phase);

  ModuleOp module;
  const CompileOptions &options;
  /// Those of `options`, with what phases keep for later ones.
  PhaseOptions phases;
  const CpuTarget &target;
  LibraryWriter *writer;
  const MlirSettings &mlir;
  Reporter &reporter;
  TimingScope &timing;
  /// The paths of their object files.
  std::optional<KernelsApart<std::vector<std::string>>> kernels;
  std::optional<ObjectCache> cache; ///< of --kernel-cache
  std::optional<KernelsApart<GpuKernels>> images;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_COMPILATION_H
