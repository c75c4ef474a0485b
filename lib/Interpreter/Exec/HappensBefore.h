//===- HappensBefore.h - What is done when a command begins -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_EXEC_HAPPENSBEFORE_H
#define OPTIMUS_LIB_INTERPRETER_EXEC_HAPPENSBEFORE_H

#include "optimus/Dialect/Exec/IR/Commands.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace mlir::exec {

/// For each two commands of a function, whether one is surely done before the
/// other begins. It follows from what is declared alone: on a queue commands
/// begin in order, and those that nothing waits for are done in order; what a
/// command is `after` is done before it; a wait is done when what it waits for
/// is. A carried command is done in no command of its function. Commands
/// without queues are on one.
class HappensBefore {
public:
  explicit HappensBefore(func::FuncOp function);

  int64_t getNumCommands() const { return commands.size(); }
  CommandOpInterface getCommand(int32_t number) const {
    return commands[number];
  }
  /// The place of a command among those of the function.
  int32_t getNumber(Operation *command) const {
    return numbers.lookup(command);
  }
  bool isDoneBefore(int32_t earlier, int32_t later) const {
    return earlier == later || done[later].test(earlier);
  }
  /// Whether commands like this one, each after the other in the text, are each
  /// done before the next one begins.
  bool isDoneInOrder(int32_t number) const {
    return !getCommand(number).getWaitingCommand() &&
           !getCommand(number).isCarried() && getQueue(number) == kComputeQueue;
  }

private:
  StringRef getQueue(int32_t number) const;
  /// Adds what was done when `earlier` began.
  void joinBegin(int32_t number, int32_t earlier);
  /// Adds what is done when `earlier` is.
  void joinEnd(int32_t number, int32_t earlier);

  SmallVector<CommandOpInterface> commands;
  llvm::DenseMap<Operation *, int32_t> numbers;
  /// Of each command, those that are done when it begins.
  std::vector<llvm::BitVector> done;
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_INTERPRETER_EXEC_HAPPENSBEFORE_H
