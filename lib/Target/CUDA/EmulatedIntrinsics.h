//===- EmulatedIntrinsics.h - What an emulator does for a GPU ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CUDA_EMULATEDINTRINSICS_H
#define OPTIMUS_LIB_TARGET_CUDA_EMULATEDINTRINSICS_H

#include "optimus-support/Status.h"

#include "llvm/IR/Module.h"

namespace mlir::optimus {

/// The first part of an intrinsic's name in a module for the host, where it is a
/// function as any other.
inline constexpr llvm::StringRef kEmulatedIntrinsic = "nvvm.";

/// Replaces calls of a GPU's intrinsics by calls of an emulator, as
/// emulator_abi.h has them. What these put on the stack is no access.
optimus_support::Status emulateIntrinsics(llvm::Module &module);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CUDA_EMULATEDINTRINSICS_H
