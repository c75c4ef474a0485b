//===- Passes.h - Kernels for NVIDIA GPUs -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_PASSES_H
#define OPTIMUS_TARGET_CUDA_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::optimus {

#define GEN_PASS_DECL
#include "optimus/Target/CUDA/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "optimus/Target/CUDA/Passes.h.inc"

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CUDA_PASSES_H
