//===- DeviceInterpreter.h - Executes device programs -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What commands of `exec` mean. A function of commands is executed on all ranks
// of the module's mesh in one process: commands with plain loops, kernels
// operation by operation as their bodies say, memory as bytes. It shares no
// code with the passes that make, order and place commands, nor with the
// runtime.
//
// Every byte of every buffer remembers its last writer, the buffer of that
// write, and its readers since. It is an error, on the command and with a note
// on the other one where there is one,
//  * to read what nothing has written: arenas begin poisoned;
//  * to read as one buffer what was written as another;
//  * to read or write another command's writes, or to write another's reads,
//    without an order between the two. The order is the declared one: queues,
//    `after` and waits, or before --optimus-order-commands the order of the
//    text. When the interpreter executes a command does not matter;
//  * to touch memory outside of the command's accesses, or to write a read-only
//    argument.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_DEVICEINTERPRETER_H
#define OPTIMUS_INTERPRETER_DEVICEINTERPRETER_H

#include "optimus/Interpreter/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace mlir::exec {

/// Attaches what the interpreter knows of commands and of operations in
/// kernels.
void registerDeviceInterpreterModels(DialectRegistry &registry);

/// Whether a function is one of commands: one of its arguments is a buffer.
bool isDeviceProgram(func::FuncOp function);

/// The tensor that an argument holds when the function is called: null for an
/// arena, and for what the function only writes.
RankedTensorType getInputType(func::FuncOp function, unsigned argument);

/// The names of its results in arguments: those of the partitioned function's
/// results.
SmallVector<std::string> getResultNames(func::FuncOp function);

/// Executes a function of commands. `arguments` are whole tensors without
/// padding, one an argument; those that have no input type are not looked at.
/// Returns what it writes, whole, or failure after an error on the function or
/// on one of its commands.
FailureOr<std::vector<optimus::NamedTensor>>
interpretDeviceProgram(func::FuncOp function,
                       ArrayRef<optimus::Tensor> arguments);

/// Whether this machine has the memory that interpreting a function of commands
/// takes: its buffers on all ranks, and who touched them. An error on the
/// function if not.
LogicalResult checkDeviceMemory(func::FuncOp function);

} // namespace mlir::exec

#endif // OPTIMUS_INTERPRETER_DEVICEINTERPRETER_H
