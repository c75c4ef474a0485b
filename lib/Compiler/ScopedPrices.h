//===- ScopedPrices.h - A report's times of another machine -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_SCOPEDPRICES_H
#define OPTIMUS_LIB_COMPILER_SCOPEDPRICES_H

#include "optimus/Analysis/CostModel.h"
#include "optimus/Analysis/MeasuredCosts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// Puts times of another machine into the schedules of a module's functions,
/// and when it is destroyed those times back that the module was compiled with.
/// Copies between memory spaces keep theirs.
class ScopedPrices {
public:
  /// What was `measured` of commands, or null, comes before the machine.
  ScopedPrices(ModuleOp module, const MachineProfile &machine,
               std::shared_ptr<const MeasuredCosts> measured);
  ~ScopedPrices();
  ScopedPrices(const ScopedPrices &) = delete;
  ScopedPrices &operator=(const ScopedPrices &) = delete;

private:
  void set(func::FuncOp function, const StepPrediction &prediction);

  SmallVector<std::pair<func::FuncOp, DictionaryAttr>> before;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_SCOPEDPRICES_H
