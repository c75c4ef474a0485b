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

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-order-commands"

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
      : commands(getCommands(function)) {
    llvm::StringMap<unsigned> queues;
    for (auto [number, command] : llvm::enumerate(commands)) {
      numberOf[command] = number;
      auto [queue, isNew] =
          queues.try_emplace(command.getOwnQueue(), queues.size());
      if (isNew)
        queueNames.push_back(
            StringAttr::get(command->getContext(), queue->getKey()));
      queueOf.push_back(queue->second);
    }
    numQueues = queues.size();
    last.resize(numQueues);
    clocks.resize(commands.size() * numQueues);
    needed.resize(commands.size() * numQueues);
    findNeeded();
  }

  /// Returns the number of edges.
  unsigned run() {
    unsigned numEdges = 0;
    for (unsigned number = 0; number < commands.size(); ++number)
      numEdges += order(number);
    return numEdges;
  }

private:
  /// By queue, one more than the number of the last command that is done.
  MutableArrayRef<uint32_t> getClock(unsigned number) {
    return MutableArrayRef(clocks).slice(size_t(number) * numQueues, numQueues);
  }
  /// The same of the last command that must be done: of the others on a queue
  /// it knows.
  MutableArrayRef<uint32_t> getNeeded(unsigned number) {
    return MutableArrayRef(needed).slice(size_t(number) * numQueues, numQueues);
  }

  void findNeeded() {
    std::vector<unsigned> ends;
    for (auto [number, command] : llvm::enumerate(commands)) {
      Operation *wait = command.getWaitingCommand();
      ends.push_back(wait ? numberOf.at(wait) : number);
    }
    visitDependences(commands, [&](unsigned earlier, unsigned later) {
      const unsigned end = ends[earlier];
      uint32_t &last = getNeeded(later)[queueOf[end]];
      last = std::max(last, end + 1);
    });
  }

  /// Joins what was known when `earlier` began.
  void join(unsigned number, unsigned earlier) {
    for (auto [done, known] :
         llvm::zip_equal(getClock(number), getClock(earlier)))
      done = std::max(done, known);
  }
  void joinDone(unsigned number, unsigned earlier) {
    join(number, earlier);
    uint32_t &done = getClock(number)[queueOf[earlier]];
    done = std::max(done, earlier + 1);
  }

  /// Returns the number of edges to a command.
  unsigned order(unsigned number) {
    CommandOpInterface command = commands[number];
    std::optional<unsigned> &before = last[queueOf[number]];
    // What is waited for only begins in order.
    if (before && (command.getWaitingCommand() || command.isCarried()))
      join(number, *before);
    else if (before)
      joinDone(number, *before);
    before = number;
    if (Operation *awaited = command.getAwaitedCommand())
      join(number, numberOf.at(awaited));

    // Later ones first: they may know of the earlier ones.
    SmallVector<unsigned> ends;
    for (uint32_t behind : getNeeded(number))
      if (behind != 0)
        ends.push_back(behind - 1);
    llvm::sort(ends, std::greater<>());
    SmallVector<int32_t, 2> after;
    for (unsigned end : ends) {
      if (getClock(number)[queueOf[end]] > end)
        continue;
      joinDone(number, end);
      LDBG() << "edge: " << *command.getCommandId() << " ("
             << command->getName() << " on " << command.getOwnQueue()
             << ") after " << *commands[end].getCommandId() << " ("
             << commands[end]->getName() << " on "
             << commands[end].getOwnQueue() << ')';
      after.push_back(static_cast<int32_t>(*commands[end].getCommandId()));
    }
    command.setOrder(queueNames[queueOf[number]], after);
    return after.size();
  }

  /// Commands by number: their positions.
  SmallVector<CommandOpInterface> commands;
  llvm::DenseMap<Operation *, unsigned> numberOf;
  std::vector<unsigned> queueOf;
  SmallVector<StringAttr> queueNames;
  unsigned numQueues = 0;
  /// The last command of each queue so far.
  std::vector<std::optional<unsigned>> last;
  /// One clock a command, and what it must know of when it begins.
  std::vector<uint32_t> clocks, needed;
};

class OrderCommandsPass
    : public exec::impl::OrderCommandsPassBase<OrderCommandsPass> {
public:
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock())
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
