//===- Report.h - What a compiled model needs -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_REPORT_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

/// Prints, for each function of commands, its arena against the lower bound,
/// the peak by category and the communication by mesh axis. For a module after
/// --optimus-place-buffers.
void printReport(mlir::ModuleOp module, llvm::raw_ostream &out);

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_REPORT_H
