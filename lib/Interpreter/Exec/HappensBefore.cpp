//===- HappensBefore.cpp - What is done when a command begins ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HappensBefore.h"

using namespace mlir;
using namespace mlir::exec;

HappensBefore::HappensBefore(func::FuncOp function)
    : commands(getCommands(function)) {
  llvm::DenseMap<int32_t, int32_t> numberOfId;
  for (auto [number, command] : llvm::enumerate(commands)) {
    numbers[command] = number;
    if (std::optional<uint32_t> id = command.getCommandId())
      numberOfId[static_cast<int32_t>(*id)] = number;
  }
  done.assign(commands.size(), llvm::BitVector(commands.size()));
  llvm::StringMap<int32_t> lastOf;
  for (int32_t number = 0; number < getNumCommands(); ++number) {
    CommandOpInterface command = commands[number];
    auto [last, isFirst] = lastOf.try_emplace(getQueue(number), number);
    if (!isFirst) {
      bool isCompute = getQueue(number) == kComputeQueue;
      // An awaited command only begins in order, unless its queue runs commands
      // one after the other.
      const bool isAwaited = command.getWaitingCommand() || command.isCarried();
      if (isAwaited && !isCompute)
        joinBegin(number, last->second);
      else
        joinEnd(number, last->second);
      last->second = number;
    }
    for (int32_t id : command.getCommandsBefore())
      if (auto earlier = numberOfId.find(id);
          earlier != numberOfId.end() && earlier->second < number)
        joinEnd(number, earlier->second);
    if (Operation *awaited = command.getAwaitedCommand())
      joinBegin(number, getNumber(awaited));
  }
}

StringRef HappensBefore::getQueue(int32_t number) const {
  CommandOpInterface command = commands[number];
  return command.getCommandQueue().value_or(kComputeQueue);
}

void HappensBefore::joinBegin(int32_t number, int32_t earlier) {
  done[number] |= done[earlier];
}

void HappensBefore::joinEnd(int32_t number, int32_t earlier) {
  joinBegin(number, earlier);
  CommandOpInterface command = commands[earlier];
  if (Operation *awaited = command.getAwaitedCommand())
    done[number].set(getNumber(awaited));
  if (!command.getWaitingCommand() && !command.isCarried())
    done[number].set(earlier);
}
