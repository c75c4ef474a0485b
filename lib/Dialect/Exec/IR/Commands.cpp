//===- Commands.cpp - The commands of a device program ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Commands.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::exec;

int64_t Access::getTouchedBytes() const {
  Type type = operand->get().getType();
  return cols ? rows * cols * optimus::getElementBytes(type)
              : optimus::getBytes(type);
}

AttentionKeys mlir::exec::getAttentionKeys(Operation *attention) {
  auto forward = dyn_cast<AttentionOp>(attention);
  if (!forward)
    return {};
  return {int64_t(forward.getCapacity().value_or(0)),
          int64_t(forward.getPool().value_or(0))};
}

/// As walk() visits them, which takes twice as long: there are a million.
template <typename Visit>
static void forEachCommand(Operation *root, Visit visit) {
  for (Region &region : root->getRegions())
    for (Block &block : region)
      for (Operation &op : block) {
        if (op.getNumRegions() != 0)
          forEachCommand(&op, visit);
        if (auto command = dyn_cast<CommandOpInterface>(op))
          visit(command);
      }
}

bool mlir::exec::hasCommands(Operation *root) {
  return root->walk([](CommandOpInterface) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

SmallVector<CommandOpInterface> mlir::exec::getCommands(Operation *root) {
  SmallVector<CommandOpInterface> commands;
  forEachCommand(
      root, [&](CommandOpInterface command) { commands.push_back(command); });
  return commands;
}

int64_t mlir::exec::numberCommands(Operation *root) {
  SmallVector<CommandOpInterface> commands = getCommands(root);
  if (commands.empty())
    return 0;
  auto *dialect = root->getContext()->getLoadedDialect<ExecDialect>();
  for (auto [command, number] :
       llvm::zip_equal(commands, dialect->getNumbers(commands.size())))
    command.setCommandId(number);
  return commands.size();
}
