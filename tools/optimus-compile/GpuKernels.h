//===- GpuKernels.h - Machine code for GPUs ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_COMPILE_GPUKERNELS_H
#define OPTIMUS_TOOLS_OPTIMUS_COMPILE_GPUKERNELS_H

#include "Options.h"

#include "optimus/Conversion/ExecToLLVM/DeviceImage.h"
#include "optimus/Target/CPU/CodeGen.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::optimus {

/// Compiles the kernels of a module of placed device programs for each
/// architecture, writes them to the folder of --cubins-to, and prints with
/// --report what they take. Returns what a library carries of them: the machine
/// code of each architecture, then the PTX of the newest. `writer` is needed
/// where they are to be emulated.
optimus_support::StatusOr<DeviceImages>
buildGpuKernels(ModuleOp module, const CompileOptions &options,
                LibraryWriter *writer, llvm::raw_ostream &out);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_COMPILE_GPUKERNELS_H
