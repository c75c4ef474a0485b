//===- MeasuredCosts.h - What commands took when they ran -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
#ifndef OPTIMUS_ANALYSIS_MEASUREDCOSTS_H
#define OPTIMUS_ANALYSIS_MEASUREDCOSTS_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Prices/RunTimes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace mlir::optimus {

using optimus_prices::MeasuredCommand;
using optimus_prices::RunProfile;

/// What a run measured of a program's operations.
class MeasuredCosts {
public:
  MeasuredCosts(optimus_prices::RunTimes times, std::string name)
      : times(std::move(times)), name(std::move(name)) {}

  /// Reads what `optimus-run train --profile` wrote, as RunTimes.
  static llvm::Expected<std::shared_ptr<const MeasuredCosts>>
  load(StringRef path);

  /// The time of a command, waits excepted; a collective, from its start to its
  /// end. Nothing where nothing like it was measured.
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

  const RunProfile &getProfile() const { return times.getProfile(); }
  StringRef getName() const { return name; }

private:
  optimus_prices::RunTimes times;
  std::string name;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_MEASUREDCOSTS_H
