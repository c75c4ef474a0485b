//===- OrderCommands.cpp - Queues and edges of commands -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A command's clock says of each queue which of its commands are known to be
// done when it begins. An edge is inserted where a command that must be done is
// not among them. A collective is done where its wait is.
//
//===----------------------------------------------------------------------===//

#include "Dependences.h"

#include "optimus/Dialect/Exec/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::exec {
#define GEN_PASS_DEF_ORDERCOMMANDSPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
class CommandOrder {
public:
  explicit CommandOrder(func::FuncOp function)
      : function(function), nodes(computeDependences(function)) {}

  /// Returns the number of edges.
  unsigned run() {
    for (unsigned node = 0; node < nodes.size(); ++node)
      nodeOf[nodes[node].command] = node;
    for (Operation &op : function.getBody().front())
      if (auto command = dyn_cast<CommandOpInterface>(op))
        order(command);
    return numEdges;
  }

private:
  /// By queue, one more than the last command that is done.
  using Clock = llvm::SmallMapVector<StringRef, uint32_t, 4>;

  static void join(Clock &clock, const Clock &other) {
    for (auto [queue, done] : other)
      clock[queue] = std::max(clock[queue], done);
  }
  static void joinDone(Clock &clock, CommandOpInterface earlier,
                       const Clock &known) {
    join(clock, known);
    uint32_t &done = clock[earlier.getOwnQueue()];
    done = std::max(done, *earlier.getCommandId() + 1);
  }

  void order(CommandOpInterface command) {
    StringRef queue = command.getOwnQueue();
    Clock clock;
    if (CommandOpInterface before = last.lookup(queue)) {
      // What is waited for only begins in order.
      if (command.getWaitingCommand())
        join(clock, clocks[before]);
      else
        joinDone(clock, before, clocks[before]);
    }
    if (Operation *awaited = command.getAwaitedCommand())
      join(clock, clocks[awaited]);

    // Later ones first: they may know of the earlier ones.
    SmallVector<int32_t, 2> after;
    auto found = nodeOf.find(command);
    ArrayRef<unsigned> needed;
    if (found != nodeOf.end())
      needed = nodes[found->second].before;
    SmallVector<CommandOpInterface, 4> ends;
    for (unsigned node : needed)
      ends.push_back(nodes[node].isCollective() ? nodes[node].wait
                                                : nodes[node].command);
    llvm::sort(ends, [](CommandOpInterface a, CommandOpInterface b) {
      return *a.getCommandId() > *b.getCommandId();
    });
    for (CommandOpInterface end : ends) {
      if (clock[end.getOwnQueue()] > *end.getCommandId())
        continue;
      joinDone(clock, end, clocks[end]);
      after.push_back(static_cast<int32_t>(*end.getCommandId()));
    }
    command.setOrder(queue, after);
    numEdges += after.size();
    last[queue] = command;
    clocks[command] = std::move(clock);
  }

  func::FuncOp function;
  std::vector<ProgramNode> nodes;
  llvm::DenseMap<Operation *, unsigned> nodeOf;
  llvm::DenseMap<Operation *, Clock> clocks;
  llvm::DenseMap<StringRef, CommandOpInterface> last;
  unsigned numEdges = 0;
};

class OrderCommandsPass
    : public exec::impl::OrderCommandsPassBase<OrderCommandsPass> {
public:
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return;
    WalkResult result = function.walk([](CommandOpInterface command) {
      if (command.getCommandId())
        return WalkResult::advance();
      command.emitOpError("has no number; run --optimus-to-exec first");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    numEdges += CommandOrder(function).run();
  }
};
} // namespace
