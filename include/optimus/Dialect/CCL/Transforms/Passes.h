//===- Passes.h - Passes on what one rank does ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES_H
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"

namespace mlir::optimus {
class MeasuredCosts;
} // namespace mlir::optimus

namespace mlir::ccl {

#define GEN_PASS_DECL
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"

/// A program before it was partitioned, for the passes of one compilation. Goes
/// before its context.
struct SerialProgram {
  OwningOpRef<ModuleOp> module;
};

/// Keeps a copy of the program, if there is none yet.
std::unique_ptr<Pass> createKeepSerialPass(std::shared_ptr<SerialProgram> kept);

/// Compares values with the kept program, or with the file in the options; says
/// that it does not where there is neither. Nothing is said where `kept` is
/// null.
std::unique_ptr<Pass>
createVerifyPartitionPass(std::shared_ptr<SerialProgram> kept,
                          const VerifyPartitionPassOptions &options);

/// Uses the measurements of these functions, unless null, instead of the
/// profile in the options.
std::unique_ptr<Pass>
createTuneProductsPass(const TuneProductsPassOptions &options,
                       std::shared_ptr<const optimus::MeasuredCosts> measured);

#define GEN_PASS_REGISTRATION
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES_H
