//===- OperandReuse.h - How far apart uses of a buffer are ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_OPERANDREUSE_H
#define OPTIMUS_ANALYSIS_OPERANDREUSE_H

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// What a command touches of one of its operands.
struct OperandTraffic {
  OpOperand *operand;
  bool reads, writes;
  double bytes;
  /// What the function touches from the last use of the buffer to the end of
  /// this one: a cache that is as large still has the operand. Infinite where
  /// nobody is known to have used it before.
  double reuseBytes;
};

/// The operands of a command by itself: as though nobody had used them.
SmallVector<OperandTraffic> getTraffic(exec::CommandOpInterface command);

/// Follows the commands of a function in their order.
///
///   a: write %x, 4 MiB    reuse of %x: infinite
///   b: write %y, 8 MiB
///   c: read %x, 4 MiB     reuse of %x: 8 + 4 MiB; a cache of 12 MiB has it
class OperandReuse {
public:
  /// What the next command touches.
  SmallVector<OperandTraffic> advance(exec::CommandOpInterface command);

private:
  double touched = 0;
  /// What had been touched at the last use.
  llvm::DenseMap<Value, double> lastUse;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_OPERANDREUSE_H
