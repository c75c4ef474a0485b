//===- Interpreter.h - Executes programs on tensors -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference for what programs mean. Functions of `optimus`, `ccl` and
// constants are executed operation by operation with plain loops in f64, all
// ranks of the module's mesh in one process, reductions in rank order. It
// shares no code with the lowering.
//
// After every operation it also checks the following, and fails with an error
// on the operation otherwise:
//  * ranks with the same part of a value hold the same bits;
//  * padding contributes nothing to sums over it;
//  * the operation on parts has its meaning on whole tensors: the results put
//    together are those of the operation on its operands put together.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_INTERPRETER_H
#define OPTIMUS_INTERPRETER_INTERPRETER_H

#include "optimus/Interpreter/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::optimus {

/// Executes a function of one block. `arguments` are whole tensors without
/// padding, one an argument, of the shapes that `getWholeShape` gives; each is
/// sharded and padded as the argument's type says (with zeros, targets with
/// −1). Returns the whole results, or failure after an error on the function or
/// on one of its operations.
FailureOr<SmallVector<Tensor>> interpret(func::FuncOp function,
                                         ArrayRef<Tensor> arguments);

/// Whether this machine has the memory that interpreting a function takes: all
/// values are kept, in f64 and on all ranks. An error on the function if not.
LogicalResult checkMemory(func::FuncOp function);

/// The shape of the whole, unpadded tensor that a tensor type is a part of.
SmallVector<int64_t> getWholeShape(Type type);

/// The name of an argument: its parameter's name, else its buffer's ("ROLE" or
/// "ROLE:OF"), else "arg" and its number.
std::string getArgumentName(func::FuncOp function, unsigned argument);
/// The name of a result: its buffer's, else "result" and its number.
std::string getResultName(func::FuncOp function, unsigned result);

} // namespace mlir::optimus

#endif // OPTIMUS_INTERPRETER_INTERPRETER_H
