//===- RepeatedBlocks.h - Layers that are the same again --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A deep model has few kinds of layers. Of each kind a few are enough to learn
// what one of them takes:
//
//   %x0 = embedding …         %x0 = embedding …
//   %x1 = layer(%x0, %w0)     %x1 = layer(%x0, %w0)
//   %x2 = layer(%x1, %w1)  →  %x2 = layer(%x1, %w1)
//   %x3 = layer(%x2, %w2)     %y = head(%x2)
//   %y = head(%x3)            and no argument %w2
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_REPEATEDBLOCKS_H
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_REPEATEDBLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Operations of a function, the same `count` times over: with the same
/// attributes, types and uses of each other, and arguments of their own.
struct RepeatedBlocks {
  /// The position of the first operation, and how many each block has.
  size_t begin = 0, size = 0;
  size_t count = 0;

  size_t getEnd() const { return begin + count * size; }
};

/// The blocks of each kind with `least` of them or more, in the order of the
/// program, of a function with one block.
SmallVector<RepeatedBlocks> findRepeatedBlocks(func::FuncOp function,
                                               size_t least);

/// Removes all but `kept[i]` blocks of `kinds[i]`, the last ones, and the
/// arguments that nothing but they use. Others use the results of the last
/// blocks that stay. Keeps at least one of each kind.
void keepBlocks(func::FuncOp function, ArrayRef<RepeatedBlocks> kinds,
                ArrayRef<size_t> kept);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_REPEATEDBLOCKS_H
