//===- LowerKernels.h - Kernels in the LLVM dialect -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_LOWERKERNELS_H
#define OPTIMUS_TARGET_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// Lowers a module of nothing but kernels and their tables to the LLVM dialect;
/// what is of NVVM stays. A buffer becomes one pointer.
LogicalResult lowerKernelsToLLVM(ModuleOp module);

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_LOWERKERNELS_H
