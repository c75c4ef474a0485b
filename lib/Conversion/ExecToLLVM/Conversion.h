//===- Conversion.h - The parts of --optimus-exec-to-llvm -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_EXECTOLLVM_CONVERSION_H
#define OPTIMUS_LIB_CONVERSION_EXECTOLLVM_CONVERSION_H

#include "optimus/Conversion/ExecToLLVM/DeviceImage.h"
#include "optimus/Target/Target.h"

#include "optimus-support/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::optimus {

/// The name of the wrapper of a kernel.
std::string getWrapperName(StringRef kernel);

/// The wrapper of a kernel, without a body yet: only this library's other
/// objects see it.
LLVM::LLVMFuncOp declareWrapper(OpBuilder &b, Location loc,
                                llvm::StringRef kernel);

/// Leaves the kernels and the tables that they read. Returns the functions of
/// commands, which a step has a million operations of.
OwningOpRef<ModuleOp> takeCommands(ModuleOp module);

/// Converts all that is left, the kernels, to the LLVM dialect and writes
/// their wrappers.
LogicalResult convertKernels(ModuleOp module);

using KernelList = ArrayRef<std::unique_ptr<optimus_support::program::KernelT>>;

/// By the names of kernels.
using DeviceKernels = llvm::StringMap<DeviceKernel>;

/// Writes optimus_model_query and what it returns: the manifest, the packed
/// programs, those kernels of their target, and a device's code. Kernels that
/// are not in `deviceKernels` have wrappers.
void createModelQuery(ModuleOp module, StringRef manifest, StringRef programs,
                      KernelList kernels, const DeviceKernels &deviceKernels,
                      const DeviceImages &images);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_EXECTOLLVM_CONVERSION_H
