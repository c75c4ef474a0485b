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

#include "optimus-support/InputFile.h"
#include "optimus-support/Status.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::optimus {

/// A .npy file, version 1 or 2: little-endian f32, f64, i32 or i64, row-major.
/// Its header is read when it is opened, so that the shape can be looked at
/// before there is memory for the elements.
class NpyFile {
public:
  static optimus_support::StatusOr<NpyFile> open(const std::string &path);

  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// The whole array.
  optimus_support::StatusOr<Tensor> read() const;

private:
  optimus_support::InputFile file;
  llvm::SmallVector<int64_t> shape;
  size_t count = 1; ///< of elements
  llvm::StringRef type;
  size_t offset = 0; ///< of the elements
};

/// Writes a tensor of f64, or of i32 if `integers`.
optimus_support::Status writeNpy(const std::string &path, const Tensor &tensor,
                                 bool integers);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_INTERPRET_NPY_H
