//===- OrderCommands.cpp - Queues and edges of commands -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"

#include "optimus/Dialect/Exec/Transforms/Passes.h"

#include <algorithm>

namespace mlir::exec {
#define GEN_PASS_DEF_ORDERCOMMANDSPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
class OrderCommandsPass
    : public exec::impl::OrderCommandsPassBase<OrderCommandsPass> {
public:
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return;
    WalkResult result = function.walk([](CommandOpInterface command) {
      if (!command.getCommandId()) {
        command.emitOpError("has no number; run --optimus-to-exec first");
        return WalkResult::interrupt();
      }
      command.setOrder(kComputeQueue, {});
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();

    // Commands of `compute` are in order already. Of those that a collective
    // must come after, the last stands for all: a collective among them for its
    // wait.
    std::vector<ProgramNode> nodes = computeDependences(function);
    for (ProgramNode &node : nodes) {
      auto start = dyn_cast<CollectiveStartOp>(*node.command);
      if (!start)
        continue;
      std::optional<int32_t> last;
      for (unsigned before : node.before) {
        CommandOpInterface earlier = nodes[before].command;
        if (nodes[before].isCollective())
          earlier = cast<CommandOpInterface>(*nodes[before].wait);
        last = std::max(last.value_or(0),
                        static_cast<int32_t>(*earlier.getCommandId()));
      }
      SmallVector<int32_t, 1> after;
      if (last)
        after.push_back(*last);
      node.command.setOrder(start.getAxis(), after);
      numEdges += after.size();
    }
  }
};
} // namespace
