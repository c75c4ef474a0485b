//===- Report.h - What a compiled model needs -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_REPORT_H
#define OPTIMUS_LIB_COMPILER_REPORT_H

#include "Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::optimus {

/// Why the run's profile that was given is not used; empty if it is.
std::string explainUnusedProfile(const PhaseOptions &phases);

/// What bounds the bytes of a rank.
struct MemoryLimit {
  std::string owner;
  int64_t bytes;
};

/// The budget and the GPU, as far as there are any; without both, a rank's part
/// of this machine or container.
SmallVector<MemoryLimit> getMemoryLimits(const CompileOptions &options);

/// Prints, for each function of commands, its arena against the lower bound,
/// the peak by category and its largest values, the communication by mesh axis,
/// and what is waited for and why; then the bytes of a rank, and whether they
/// fit. For a module after --optimus-place-buffers.
void printReport(ModuleOp module, const CompileOptions &options,
                 llvm::raw_ostream &out);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_REPORT_H
