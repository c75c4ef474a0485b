//===- HeldWeights.h - How a function's weights are held --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_HELDWEIGHTS_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_HELDWEIGHTS_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// The weights of a function, and whether it reads them as blocks of few bits.
/// Then a product reads the parameter itself, which nothing rounds before:
///
/// ```mlir
/// %narrow = optimus.cast %w : … f32 to bf16  // not lowered, for nobody reads
/// it %y = optimus.matmul %x, %narrow            // reads blocks of %w
/// ```
class HeldWeights {
public:
  /// Functions that generate text have `blocks`, others none.
  HeldWeights(func::FuncOp function, exec::Blocks blocks);

  exec::Blocks getBlocks() const { return blocks; }

  /// The parameter that a product's B is, or is rounded from where it is read
  /// as blocks; null where it is no weight that stays where it lies.
  Value getParameter(Value b) const;
  /// Whether rows of a table are looked up in blocks: those of tokens are,
  /// those of positions are not.
  bool isTableOfBlocks(Value table) const;
  /// Whether an operation rounds a parameter for those alone that read blocks.
  bool isUnread(Operation *op) const;

  /// Fails with an error on a product or a look-up where a block would be on
  /// two ranks, or is moved between ranks.
  LogicalResult verify();

private:
  func::FuncOp function;
  exec::Blocks blocks;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_HELDWEIGHTS_H
