//===- Manifest.h - Writes the manifest of a model library ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_MANIFEST_H
#define OPTIMUS_TARGET_CPU_MANIFEST_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Target/CPU/CodeGen.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir::optimus {

inline constexpr llvm::StringLiteral kLocalTypeAttr =
    exec::ExecDialect::kLocalType;

/// What a module does not say of itself.
struct ManifestOptions {
  std::string strategy;
  std::string optimizer;
};

/// Keeps what buffers do not show for the manifest: on every argument the type
/// of its tensor, and on the module the hash of the program and the roundings
/// of gradients. For a module of
/// functions on local tensors.
void recordLayouts(ModuleOp module);

/// Whether a module says of its model what a manifest must: batch, sequence and
/// vocabulary. A failure is reported on the module.
LogicalResult checkModelDescription(ModuleOp module);

/// The manifest (docs/manifest.md) of a module of placed device programs that went
/// through recordLayouts. A failure is reported on the operation concerned.
FailureOr<std::string> buildManifest(ModuleOp module, const CpuTarget &target,
                                     const ManifestOptions &options);

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_MANIFEST_H
