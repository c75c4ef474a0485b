//===- Passes.h - Passes on what one rank does -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES_H
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::ccl {

#define GEN_PASS_DECL
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "optimus/Dialect/CCL/Transforms/Passes.h.inc"

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_PASSES_H
