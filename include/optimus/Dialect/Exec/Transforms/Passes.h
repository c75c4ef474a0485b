//===- Passes.h - Passes on the device program ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::optimus {
class MeasuredCosts;
} // namespace mlir::optimus

namespace mlir::exec {

#define GEN_PASS_DECL
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"

/// Uses the measurements of these functions, unless null, instead of the
/// profile in the options.
std::unique_ptr<Pass>
createSchedulePass(const SchedulePassOptions &options,
                   std::shared_ptr<const optimus::MeasuredCosts> measured);
std::unique_ptr<Pass>
createCarryGathersPass(const CarryGathersPassOptions &options,
                       std::shared_ptr<const optimus::MeasuredCosts> measured);
std::unique_ptr<Pass>
createOffloadPass(const OffloadPassOptions &options,
                  std::shared_ptr<const optimus::MeasuredCosts> measured);

#define GEN_PASS_REGISTRATION
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_PASSES_H
