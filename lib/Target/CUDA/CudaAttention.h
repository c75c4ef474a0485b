//===- CudaAttention.h - Attention in tiles ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDAATTENTION_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDAATTENTION_H

#include "optimus/Kernels/AttentionKernels.h"

namespace mlir::optimus {

/// The rows of a group that a block does together: its iteration.
inline constexpr int64_t kGroupRows = 64;

/// Writes a kernel of attention whose blocks do 64 rows of a head at a time and
/// hold the rows these meet in shared memory.
void writeTiledAttention(KernelBuilder &k,
                         const kernels::AttentionExtents &extents,
                         kernels::AttentionPart part);
/// The same for bf16, by tensor cores.
void writeCoreAttention(KernelBuilder &k,
                        const kernels::AttentionExtents &extents,
                        kernels::AttentionPart part);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDAATTENTION_H
