//===- Record.h - What a program was compiled with --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The IR of a phase carries its flags, as the module's attribute
// `optimus.compilation`. So a compilation from there on need not repeat them
// and cannot contradict finished work.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_RECORD_H
#define OPTIMUS_LIB_COMPILER_RECORD_H

#include "Options.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// While this lives, the module has a record of its phase and flags, to be
/// printed. Otherwise it does not: two ways to one program are one program.
class ScopedRecord {
public:
  ScopedRecord(ModuleOp module, StringRef phase, const CompileOptions &options);
  ~ScopedRecord();

private:
  ModuleOp module;
};

/// Takes the record off a program, if it has one, and sets flags not given by
/// the user to the values of the record. Returns the options then. The error
/// names what contradicts the record. `read` is what the flags say by
/// themselves. Where that fails, a flag may rest on one of the record's, as
/// --deterministic on --target.
optimus_support::StatusOr<CompileOptions>
takeRecord(ModuleOp module, const CompileSettings &settings,
           optimus_support::StatusOr<CompileOptions> read);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_RECORD_H
