//===- AdapterOption.h - The adapters of a fine-tuned model -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_ADAPTEROPTION_H
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_ADAPTEROPTION_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::optimus {

/// Before the names of adapters' parameters, in PEFT's folders.
inline constexpr StringLiteral kAdapterPrefix = "base_model.model.";
/// Their names, for --optimus-differentiate.
inline constexpr StringLiteral kAdapterPattern =
    "base_model.model.*.lora_[AB].weight";

/// Low-rank adapters, as PEFT has them: x·W + x·Aᵀ·Bᵀ · alpha/rank.
struct AdapterOption {
  int64_t rank = 0;
  double alpha = 0;
  /// Ends of the modules' paths, as q_proj.
  std::vector<std::string> targets;

  /// Reads "rank=16,alpha=32,targets=q_proj,v_proj"; an error says what was
  /// expected and found.
  static llvm::Expected<AdapterOption> parse(StringRef text);
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_ADAPTEROPTION_H
