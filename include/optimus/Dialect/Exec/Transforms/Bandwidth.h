//===- Bandwidth.h - How fast other memories are ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_BANDWIDTH_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_BANDWIDTH_H

#include "mlir/Support/LLVM.h"

#include <cstdint>
#include <optional>

namespace mlir::exec {

/// Bytes a second into the device's memory and out of it.
struct Bandwidth {
  double in = 512.0 * (1 << 20), out = 1024.0 * (1 << 20);
  /// What a copy costs however small it is.
  double alpha = 50e-6;

  /// Reads `512MiB`, or `512MiB,1GiB`; "" for the default. Nothing if the text
  /// is neither.
  static std::optional<Bandwidth> parse(StringRef text);

  double getFetchSeconds(int64_t bytes) const { return alpha + bytes / in; }
  double getStoreSeconds(int64_t bytes) const { return alpha + bytes / out; }
};

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_BANDWIDTH_H
