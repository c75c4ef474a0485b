//===- RecomputePolicy.h - What runs again in the backward ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_CCL_TRANSFORMS_RECOMPUTEPOLICY_H
#define OPTIMUS_DIALECT_CCL_TRANSFORMS_RECOMPUTEPOLICY_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::ccl {

/// On a product forbidden to add to an operand in place, though nothing uses
/// the operand afterwards: the same product without recomputation did not, and
/// rounds otherwise.
inline constexpr llvm::StringLiteral kOwnBuffer = "ccl.own_buffer";

/// What --optimus-recompute recomputes, from least to most.
enum class RecomputePolicy { None, Attention, Layer };

/// The policies' names, in the order of the enumeration.
ArrayRef<StringRef> getRecomputePolicies();

/// The policy of a name, or nothing.
std::optional<RecomputePolicy> lookupRecomputePolicy(StringRef name);

} // namespace mlir::ccl

#endif // OPTIMUS_DIALECT_CCL_TRANSFORMS_RECOMPUTEPOLICY_H
