//===- LiveRows.h - Rows of slots without a token ---------------*- C++ -*-===//
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

/// The products of a decoding function with a row for each slot. A slot without
/// a token has a negative position. Its row of such a product goes to rows of
/// the slot alone, and nobody reads them.
///
/// ```mlir
/// %q = optimus.matmul %x, %w      // [slots, 1, h]: a row for each slot
/// %t = optimus.sum_leading %q     // not so, if this were there
/// ```
class LiveRows {
public:
  /// Of a function on a rank's tensors; of one that does not decode, nothing.
  explicit LiveRows(func::FuncOp function);

  /// The positions [slots, 1] of the rows of a product's first factor, or
  /// null where all rows count.
  Value get(Value factor) const;

private:
  /// Marks what has an entry for each slot in its first dimension: what is made
  /// of such alone, slot by slot.
  void findAligned(Block &body);
  /// Marks what goes to other slots' entries, too.
  void findMixed(Block &body);

  Value positions;
  llvm::DenseSet<Value> aligned, mixed;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_LIVEROWS_H
