//===- CudaSoftmax.h - A softmax whose row stays in registers ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_CUDASOFTMAX_H
#define OPTIMUS_LIB_TARGET_CUDA_CUDASOFTMAX_H

#include "optimus/Kernels/HeadLossKernels.h"
#include "optimus/Target/CUDA/CudaSchedule.h"

namespace mlir::optimus {

/// Writes the kernel if its rows are of bf16, in whole pieces of 16 bytes, and
/// few enough of these for a thread's registers; returns whether they are.
bool writeHeldSoftmax(KernelBuilder &k, const CudaSchedule &schedule,
                      const kernels::SoftmaxOnce &softmax);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_CUDASOFTMAX_H
