//===- Emulation.h - Kernels of GPUs as code for the host -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes the LLVM IR of the PTX and replaces the features of a GPU missing on
// the host (thread ids, barriers, shuffles) by calls, drops address spaces, and
// announces every load and store. What NVPTX and ptxas make of the IR is not
// seen.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CUDA_EMULATION_H
#define OPTIMUS_TARGET_CUDA_EMULATION_H

#include "optimus-support/Status.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>

namespace mlir::optimus {

/// The architecture whose IR is emulated.
inline constexpr llvm::StringLiteral kEmulatedArchitecture = "sm_90";

/// The host's module for the IR of generateCudaIR(), an image as emulator_abi.h
/// defines it. The error says which part of the IR has no emulation.
optimus_support::StatusOr<std::unique_ptr<llvm::Module>>
emulateCudaCode(llvm::StringRef ir, llvm::LLVMContext &context,
                const llvm::TargetMachine &host);

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CUDA_EMULATION_H
