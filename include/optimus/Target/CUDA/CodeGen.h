//===- CodeGen.h - From kernels to PTX --------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_CODEGEN_H
#define OPTIMUS_TARGET_CUDA_CODEGEN_H

#include "optimus-support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mlir::optimus {

/// The architectures that kernels are compiled for unless told otherwise.
inline constexpr llvm::StringLiteral kCudaArchitectures = "sm_80,sm_90,sm_100";

/// The oldest with tensor cores for the kernels' type: bf16.
inline constexpr unsigned kOldestArchitecture = 80;

/// What stands for an architecture where kernels are emulated on the host.
inline constexpr llvm::StringLiteral kEmulated = "emulated";

/// The name that a kernel has on a device.
std::string getCudaName(StringRef kernel);

/// Leaves of a module its kernels for "cuda", lowered to LLVM and NVVM; as
/// --optimus-kernels-to-nvvm. A failure is reported on the operation concerned.
LogicalResult convertKernelsToNVVM(ModuleOp module);

/// The 90 of "sm_90" and "sm_90a"; 0 of kEmulated.
unsigned getArchitectureNumber(StringRef name);

/// Reads "sm_80,sm_90"; the error says which LLVM does not know, or is too old.
/// One of them may be kEmulated.
optimus_support::StatusOr<std::vector<std::string>>
readCudaArchitectures(StringRef text);

/// The one whose PTX runs on the most GPUs to come.
StringRef getNewestArchitecture(ArrayRef<std::string> architectures);

/// The LLVM IR, optimised, of what convertKernelsToNVVM left: the source of the
/// PTX, and the input of emulateCudaCode().
optimus_support::StatusOr<std::string>
generateCudaIR(ModuleOp module, const std::string &architecture);

/// Its PTX.
optimus_support::StatusOr<std::string>
generatePtx(ModuleOp module, const std::string &architecture);

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CUDA_CODEGEN_H
