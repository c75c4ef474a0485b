//===- Proof.h - Two programs compute the same values -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What --optimus-verify-partition compares; see docs/proof.md.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_PROOF_H
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_PROOF_H

#include "optimus/Dialect/Optimus/IR/Lemmas.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::ccl {

/// Checks for one block, whose operations all have symbolic values on tensors.
/// An error on the operation (V6) if not.
LogicalResult checkSymbolicValues(func::FuncOp function);

/// Whether `partitioned` returns the whole tensors of `serial`, by the lemmas;
/// those used are added to `lemmas`. Both have passed `checkSymbolicValues`,
/// and every operation of `partitioned` fits its rule. Errors (V7, V8) are on
/// its operations, with notes on those of `serial`.
LogicalResult proveEqual(func::FuncOp serial, func::FuncOp partitioned,
                         optimus::LemmaSet *lemmas = nullptr);

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_PROOF_H
