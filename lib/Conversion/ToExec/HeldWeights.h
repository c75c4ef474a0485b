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
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringSet.h"

namespace mlir::optimus {

/// The weights of a function, and whether it reads them in blocks. Then a
/// product reads the parameter itself, which nothing rounds before:
///
/// ```mlir
/// %narrow = optimus.cast %w : … f32 to bf16  // not lowered, for nobody reads
/// it %y = optimus.matmul %x, %narrow            // reads blocks of %w
/// ```
class HeldWeights {
public:
  /// The parameters of functions for generation that are rounded to bf16 for
  /// products alone, and on no rank but where they lie. They lie once, so one
  /// function that reads another form keeps all from blocks.
  static llvm::StringSet<> findRounded(ModuleOp module);

  /// Functions that generate text have weights of few bits, if any, or blocks
  /// of bf16 of `rounded` parameters; others have none.
  HeldWeights(func::FuncOp function, exec::Blocks fewBits,
              const llvm::StringSet<> &rounded);

  exec::Blocks getFewBits() const { return fewBits; }

  /// The blocks that a product reads B as.
  exec::Blocks getBlocks(Value b) const;
  /// The parameter that a product's B is, or is rounded from where it is read
  /// in blocks; null where it is no weight that stays where it lies.
  Value getParameter(Value b) const;
  /// Whether rows of a table are looked up in blocks of few bits: those of
  /// tokens are, those of positions are not.
  bool isTableOfBlocks(Value table) const;
  /// Whether an operation rounds a parameter for those alone that read blocks.
  bool isUnread(Operation *op) const;

  /// Fails with an error on a product or a look-up where a block would be on
  /// two ranks, or is moved between ranks.
  LogicalResult verify();

private:
  func::FuncOp function;
  exec::Blocks fewBits;
  const llvm::StringSet<> &rounded;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_HELDWEIGHTS_H
