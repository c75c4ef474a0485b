//===- OffloadChoice.h - What a user wants offloaded ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_OFFLOADCHOICE_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_OFFLOADCHOICE_H

#include "optimus/Dialect/Optimus/IR/ValuePattern.h"

#include "llvm/ADT/StringSet.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::exec {

/// What is to be offloaded, by kind and by the ids of values.
struct OffloadChoice {
  /// Of state, parameters, gradients and activations.
  llvm::StringSet<> kinds;
  /// Of state, at least so many bytes.
  std::optional<int64_t> stateBytes;
  std::vector<optimus::ValuePattern> patterns;

  /// Reads entries as `state=512MiB`, `gradients` and `h.*.mlp.gelu:*`, whose
  /// text must live as long as the choice. An error says what was expected and
  /// found.
  static llvm::Expected<OffloadChoice> parse(ArrayRef<StringRef> entries);

private:
  llvm::Error add(StringRef entry);
};

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_OFFLOADCHOICE_H
