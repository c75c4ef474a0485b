//===- Passes.h - From the device program to LLVM ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOLLVM_PASSES_H
#define OPTIMUS_CONVERSION_EXECTOLLVM_PASSES_H

#include "optimus/Conversion/ExecToLLVM/DeviceImage.h"
#include "optimus/Conversion/ExecToLLVM/TableCheck.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Pass/Pass.h"

namespace mlir::optimus {

/// The module attribute that holds the text of the manifest.
inline constexpr llvm::StringLiteral kManifestAttr =
    exec::ExecDialect::kManifest;

#define GEN_PASS_DECL
#include "optimus/Conversion/ExecToLLVM/Passes.h.inc"

/// The same, with the machine code of kernels where the target is a device that
/// has its own. Where a check is given, tables are looked at there, and by who
/// gave it; else the pass fails where a runtime would refuse them.
std::unique_ptr<Pass>
createExecToLLVMPass(const ExecToLLVMPassOptions &options,
                     std::shared_ptr<const DeviceImages> images,
                     std::shared_ptr<TableCheck> check);

#define GEN_PASS_REGISTRATION
#include "optimus/Conversion/ExecToLLVM/Passes.h.inc"

} // namespace mlir::optimus

#endif // OPTIMUS_CONVERSION_EXECTOLLVM_PASSES_H
