//===- Npy.h - NumPy's files of one array -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_INTERPRET_NPY_H
#define OPTIMUS_TOOLS_OPTIMUS_INTERPRET_NPY_H

#include "optimus/Interpreter/Tensor.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace mlir::optimus {

/// Reads a .npy file, version 1 or 2: little-endian f32, f64, i32 or i64,
/// row-major.
llvm::Expected<Tensor> readNpy(llvm::StringRef path);

/// Writes a tensor of f64, or of i32 if `integers`.
llvm::Error writeNpy(llvm::StringRef path, const Tensor &tensor, bool integers);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_NPY_H
