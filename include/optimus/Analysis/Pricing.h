//===- Pricing.h - What passes know of commands' times ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_PRICING_H
#define OPTIMUS_ANALYSIS_PRICING_H

#include "optimus/Analysis/CostModel.h"

namespace mlir::optimus {

/// A machine profile and, where there is one, what a run measured.
class Pricing {
public:
  explicit Pricing(std::shared_ptr<const MeasuredCosts> measured = nullptr)
      : measured(std::move(measured)) {}

  /// Reads the options of a pass, both of which may be empty.
  llvm::Error load(StringRef machineProfile, StringRef profile);

  const MachineProfile &getMachine() const { return machine; }

  bool isMeasured() const { return measured != nullptr; }

  /// The costs of a function on its mesh. If the run was of another function or
  /// mesh, an error on it describes the run.
  FailureOr<CostModel> getCosts(func::FuncOp function) const;

private:
  MachineProfile machine;
  std::shared_ptr<const MeasuredCosts> measured;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_PRICING_H
