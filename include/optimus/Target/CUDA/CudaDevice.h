//===- CudaDevice.h - NVIDIA's GPUs as a target -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_CUDADEVICE_H
#define OPTIMUS_TARGET_CUDA_CUDADEVICE_H

namespace mlir::optimus {

/// Registers the target "cuda": kernels of threads and blocks. Programs are
/// compiled as far as their kernels' machine code; nothing runs them yet.
void registerCUDATarget();

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CUDA_CUDADEVICE_H
