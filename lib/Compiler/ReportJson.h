//===- ReportJson.h - The report for programs -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_REPORTJSON_H
#define OPTIMUS_LIB_COMPILER_REPORTJSON_H

#include "Options.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir::optimus {

/// The choices, the predicted time and memory of each call, and whether a rank
/// fits, as in docs/optimus-compile.md. For a module after
/// --optimus-place-buffers.
std::string buildReportJson(ModuleOp module, const CompileOptions &options);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_REPORTJSON_H
