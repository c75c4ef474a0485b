//===- GpuKernels.h - Machine code for GPUs ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_GPUKERNELS_H
#define OPTIMUS_LIB_COMPILER_GPUKERNELS_H

#include "Options.h"

#include "optimus/Conversion/ExecToLLVM/DeviceImage.h"
#include "optimus/Target/CPU/CodeGen.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// Kernels as a GPU runs them.
struct GpuKernels {
  /// What a library carries: the machine code of each architecture, then the
  /// PTX of the newest.
  DeviceImages images;
  /// For --report: what they take of a GPU.
  std::string report;
};

/// Compiles a module of kernels, which it lowers, for each architecture, and
/// writes them to the folder of --cubins-to. `writer` is needed where they are
/// to be emulated.
optimus_support::StatusOr<GpuKernels>
buildGpuKernels(ModuleOp kernels, const CompileOptions &options,
                LibraryWriter *writer);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_GPUKERNELS_H
