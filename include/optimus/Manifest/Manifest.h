//===- Manifest.h - Writes the manifest of a model library ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MANIFEST_MANIFEST_H
#define OPTIMUS_MANIFEST_MANIFEST_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Target/CPU/CodeGen.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mlir::optimus {

/// What a module does not say of itself.
struct ManifestOptions {
  /// The device.
  std::string target;
  std::string strategy;
  std::string optimizer;
  std::string precision;
  /// Whether the library has no kernels.
  bool isPlan = false;
  /// The part of the mesh on a node, one extent an axis; empty for ranks that
  /// follow each other.
  SmallVector<int64_t> tile;
  /// Then so many; 0 where nothing is known of nodes.
  int64_t nodeRanks = 0;
};

/// Keeps on the module, for the manifest, what commands do not show: the hash
/// of the program and the roundings of gradients. For a module of functions on
/// local tensors.
void recordProgram(ModuleOp module);

/// The manifest (docs/manifest.md) of a module of placed device programs that
/// went through recordProgram; the processor is of those for "cpu" only. A
/// failure is reported on the operation concerned.
FailureOr<std::string> buildManifest(ModuleOp module,
                                     const CpuTarget &processor,
                                     const ManifestOptions &options);

} // namespace mlir::optimus

#endif // OPTIMUS_MANIFEST_MANIFEST_H
