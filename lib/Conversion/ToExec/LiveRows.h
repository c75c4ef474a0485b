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
/// same numbers alone, and nobody reads those whose number is negative. In a
/// decoding function the numbers are the positions of the slots, negative where
/// a slot has no token. In one that takes a prompt in, the index of a token is
/// the only number, negative where no logits are asked for.
///
/// ```mlir
/// // @decode
/// %q = optimus.matmul %x, %w        // [slots, 1, h]: a row for each slot
/// %t = optimus.sum_leading %q       // not so, if this were there
/// // @prefill
/// %l = optimus.take %h, %last       // [1, 1, h]: the row of %last
/// %logits = optimus.head %l, %table // left out where %last is -1
/// ```
class LiveRows {
public:
  /// Of a function on a rank's tensors; of one that neither decodes nor takes a
  /// prompt in, nothing.
  explicit LiveRows(func::FuncOp function);

  /// The numbers of the rows of a product's first factor, [rows, 1] or [1], or
  /// null where all rows count.
  Value get(Value factor) const;

private:
  /// Marks what has an entry for each number in its first dimension: what is
  /// made of such alone, entry by entry.
  void findAligned(Block &body);
  /// Marks what goes to other entries, too.
  void findMixed(Block &body);

  Value numbers;
  llvm::DenseSet<Value> aligned, mixed;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_LIVEROWS_H
