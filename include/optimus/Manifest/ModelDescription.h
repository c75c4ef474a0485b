//===- ModelDescription.h - What a program says of its model ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MANIFEST_MODELDESCRIPTION_H
#define OPTIMUS_MANIFEST_MODELDESCRIPTION_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// The keys of `optimus.model` required by every manifest.
inline constexpr llvm::StringLiteral kModelKeys[] = {"batch", "sequence",
                                                     "vocabulary"};

/// Whether a program says what a library's manifest must, and the same of its
/// model everywhere: at any level up to placed device programs.
///
/// The module has `optimus.model`; tokens and targets are [batch, sequence];
/// tables that they index have a row for each token of the vocabulary; every
/// parameter has an `optimus.init`, as many elements as its `optimus.hf_shape`,
/// a name of its own in its function, and one type in all functions, as inputs
/// and the optimizer's state have. A failure is reported on the operation
/// concerned.
LogicalResult checkModelDescription(ModuleOp module);

} // namespace mlir::optimus

#endif // OPTIMUS_MANIFEST_MODELDESCRIPTION_H
