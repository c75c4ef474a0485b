//===- KernelFrame.h - A kernel that is executed ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_EXEC_KERNELFRAME_H
#define OPTIMUS_LIB_INTERPRETER_EXEC_KERNELFRAME_H

#include "Devices.h"

namespace mlir::exec {

/// A float as its value, or an integer with its sign; an i1 is 0 or 1.
struct Number {
  double real = 0;
  int64_t whole = 0;
};
/// The lanes of a vector; a scalar has one.
using Numbers = SmallVector<Number, 16>;

/// The values of a kernel computed so far on one rank.
class KernelFrame {
public:
  const Numbers &get(Value value) const;
  int64_t getIndex(Value value) const { return get(value).front().whole; }
  void set(Value value, Numbers numbers) { values[value] = std::move(numbers); }

  // -- Memory: operands of the launch, and what the kernel has by itself ------

  void setOperand(Value memory, const Operand &operand) {
    operands.insert({memory, operand});
  }
  void setLocal(Value memory, std::vector<std::optional<Number>> elements) {
    locals[memory] = std::move(elements);
  }
  /// Fails with an error on `op`, which reads or writes.
  FailureOr<Number> load(Operation *op, Value memory, int64_t element) const;
  LogicalResult store(Operation *op, Value memory, int64_t element,
                      Number number);

  /// Executes a block up to its terminator.
  LogicalResult run(Block &block);

private:
  llvm::DenseMap<Value, Numbers> values;
  llvm::DenseMap<Value, Operand> operands;
  llvm::DenseMap<Value, std::vector<std::optional<Number>>> locals;
};

// Each attaches the models of some operations.
void attachKernelArithmetic(MLIRContext &context);
void attachKernelMath(MLIRContext &context);
void attachKernelLoops(MLIRContext &context);
void attachKernelMemory(MLIRContext &context);
void attachKernelVectors(MLIRContext &context);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_INTERPRETER_EXEC_KERNELFRAME_H
