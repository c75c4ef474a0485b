//===- CpuDevice.h - The CPU as a target ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_CPUDEVICE_H
#define OPTIMUS_TARGET_CPU_CPUDEVICE_H

namespace mlir::optimus {

/// Registers the target "cpu": vector kernels, products by oneDNN and by our
/// attention, and collectives among threads or over MPI.
void registerCPUTarget();

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_CPUDEVICE_H
