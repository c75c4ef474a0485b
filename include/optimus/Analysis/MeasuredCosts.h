//===- MeasuredCosts.h - What commands took when they ran -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Commands of a program and those of a run of it, or of the same model compiled
// otherwise, found by what they do and where in the model they come from.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_MEASUREDCOSTS_H
#define OPTIMUS_ANALYSIS_MEASUREDCOSTS_H

#include "optimus/Analysis/RunProfile.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace mlir::optimus {

class MeasuredCosts {
public:
  MeasuredCosts(RunProfile profile, std::string name);

  /// Reads what `optimus-run train --profile` wrote: FILE or, of several
  /// processes, FILE.0, FILE.1 and so on. An error names the file.
  static llvm::Expected<std::shared_ptr<const MeasuredCosts>>
  load(StringRef path);

  /// The time of a command, waits excepted; a collective, from its start to its
  /// end. The mean of those of the same function, path and work; else of the
  /// same path and work, as for what is recomputed now and was not then; else
  /// of the same work. Nothing where none was measured.
  std::optional<double> getSeconds(exec::CommandOpInterface command) const;

  /// Whether the run had this mesh and this strategy, on such a device.
  bool isOf(StringRef mesh, StringRef strategy, StringRef device) const;

  /// Whether the run called a function of this name.
  bool hasRun(StringRef function) const;

  /// Says what the run was of otherwise: names of parameters, and of functions
  /// of commands, which must be of the same mesh and strategy, the bytes of
  /// parameters and inputs.
  LogicalResult verify(func::FuncOp function) const;
  /// The same of all functions, and that the run had no other parameters.
  LogicalResult verify(ModuleOp module) const;

  const RunProfile &getProfile() const { return profile; }
  StringRef getName() const { return name; }

private:
  /// Sums, of which the mean is taken.
  struct Seconds {
    double sum = 0;
    int64_t count = 0;
  };

  std::optional<double> lookup(StringRef key) const;

  RunProfile profile;
  std::string name;
  llvm::StringMap<Seconds> byKey;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_MEASUREDCOSTS_H
