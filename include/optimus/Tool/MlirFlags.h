//===- MlirFlags.h - MLIR's own flags in our tools --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What people know from mlir-opt: --mlir-timing, --mlir-print-ir-after-all,
// --mlir-pass-statistics, crash reproducers, the printer's flags.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_MLIRFLAGS_H
#define OPTIMUS_TOOL_MLIRFLAGS_H

#include "mlir/Pass/PassManager.h"

#include <string>

namespace mlir::optimus {

/// Declares MLIR's flags of contexts, pass managers, timing and printing. Comes
/// after passes are registered, whose names are values of some, and before the
/// command line is parsed.
void declareMlirFlags();

/// The part of it for tools whose other flags MLIR declares: reproducers are
/// files like all that our tools write.
void declareReproducerFlags();

/// Declares LLVM's --debug-only, which an LLVM without assertions lacks: traces
/// depend on how our passes were compiled. A build without them refuses it.
void declareTraceFlag();

/// Before a context is made, where MLIR's flags are declared: threads as
/// chooseThreading() says, and diagnostics quote the line, not the operation,
/// which may be the whole program.
void setContextFlags();

/// Whether they ask for the operation in diagnostics.
bool printsOpOnDiagnostic();

/// Where a crash or failure of passes is to be kept; empty for nowhere.
std::string getReproducerPath();

/// Lets a pass manager keep it there.
LogicalResult enableReproducer(PassManager &passes);

/// Lets a pass manager do what all flags say, and count its time as `timing`'s.
LogicalResult applyMlirFlags(PassManager &passes, TimingScope &timing);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_MLIRFLAGS_H
