//===- LiveRows.h - Rows that nobody reads ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_LIVEROWS_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_LIVEROWS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::optimus {

/// The products whose rows a call may leave out: their rows go to rows of the
/// same numbers alone, and nobody reads those whose number is negative. These
/// numbers are the positions of the slots or of a chunk's tokens, negative
/// where there is no token. Behind the token of a chunk chosen for its logits
/// they are its index, negative where none are asked for.
///
/// ```mlir
/// // @decode
/// %q = optimus.matmul %x, %w        // [slots, 1, h]: a row for each slot
/// %t = optimus.sum_leading %q       // not so, if this were there
/// // @prefill
/// %h = optimus.matmul %x, %w        // [chunk, 1, h]: a row for each token
/// %c = optimus.cache_append %cache, %h, %places slot(%slot) // drops the
/// others %l = optimus.take %h, %last       // [1, 1, h]: the row of %last
/// %logits = optimus.head %l, %table // left out where %last is -1
/// ```
class LiveRows {
public:
  /// Of a function on a rank's tensors; of one that does not generate, nothing.
  explicit LiveRows(func::FuncOp function);

  /// The numbers of the rows of a product's first factor, [rows, 1] or [1], or
  /// null where all rows count.
  Value get(Value factor) const;

private:
  struct Numbers {
    Value numbers;
    llvm::DenseSet<Value> aligned, mixed;

    /// Marks what has an entry for each number in its first dimension: what is
    /// made of such alone, entry by entry.
    void findAligned(Block &body);
    /// Marks what goes to other entries, too.
    void findMixed(Block &body);
    Value get(Value factor) const;
  };

  llvm::SmallVector<Numbers> all;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_LIVEROWS_H
