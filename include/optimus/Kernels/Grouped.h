//===- Grouped.h - One launch of a kernel on several pieces -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_GROUPED_H
#define OPTIMUS_KERNELS_GROUPED_H

#include "optimus/Kernels/Kernel.h"

namespace mlir::optimus::kernels {

/// Kernels that differ in extents alone, as one launch. Each is written as it
/// is alone, so that its results have the same bits; the code is that of one,
/// or of one for each extent where the body depends on it.
///
/// `buffers` names each operand of a piece. Those in `shared` are the same for
/// all pieces and come first; `name` of others is `name.0`, `name.1`, … of the
/// pieces, all of one after those of another. Operands of one name are one
/// buffer, so an in-place operand is handed over once.
struct Grouped {
  SmallVector<Kernel> pieces;
  SmallVector<std::string> buffers, shared;

  OPTIMUS_CHECKED_KERNEL("grouped");
  /// The parameter that lists the pieces.
  static constexpr StringLiteral kPieces = "pieces";

  /// The operand of a piece that has one of its own.
  static std::string getOwnName(StringRef name, size_t piece) {
    return (name + "." + Twine(piece)).str();
  }

private:
  bool isShared(StringRef name) const;
  /// Whether the pieces fit each other and the names of their buffers.
  bool isValid(MLIRContext *context) const;
};

} // namespace mlir::optimus::kernels

#endif // OPTIMUS_KERNELS_GROUPED_H
