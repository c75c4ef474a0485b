//===- MemoryFunctions.h - What code generation calls -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_MEMORYFUNCTIONS_H
#define OPTIMUS_TARGET_CPU_MEMORYFUNCTIONS_H

#include "optimus/Target/LLVMCode.h"

namespace mlir::optimus {

/// The functions that LLVM's code may call where a kernel fills or copies
/// memory: memset, memcpy and memmove. A model library has its own, since it
/// imports no symbol; nobody outside sees them.
optimus_support::StatusOr<LLVMCode>
createMemoryFunctions(std::unique_ptr<llvm::TargetMachine> machine);

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_MEMORYFUNCTIONS_H
