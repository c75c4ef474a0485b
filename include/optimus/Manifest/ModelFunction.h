//===- ModelFunction.h - The facts and the hash of a model ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MANIFEST_MODELFUNCTION_H
#define OPTIMUS_MANIFEST_MODELFUNCTION_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <optional>

namespace mlir::optimus {

/// Writes `optimus.function` into a module with `@loss` on whole tensors, as
/// --optimus-record-function documents it. Nothing happens where there is no
/// `@loss`, or the attribute already.
void recordFunction(ModuleOp module);

/// What the manifest says of it (docs/manifest.md); nothing where the module
/// has no `optimus.function`.
std::optional<llvm::json::Object> describeModelFunction(ModuleOp module);

} // namespace mlir::optimus

#endif // OPTIMUS_MANIFEST_MODELFUNCTION_H
