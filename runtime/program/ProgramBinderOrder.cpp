//===- ProgramBinderOrder.cpp - Collectives, queues and what is awaited ---===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramBinder.h"

#include "optimus-support/ElementType.h"
#include "optimus-support/ProgramRegions.h"

using namespace optimus_support::program;

namespace optrt {

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

template <typename Message>
Status ProgramBinder::bindMessage(const Message &message, int32_t kind,
                                  const CommandT &command) {
  if (isQueued && message.carried != 0)
    return notHere("message that a later call waits for");
  result.commands.back().carried = message.carried;
  const uint32_t operand = command.operands[0]->address;
  for (bool isOperand : {kind == OPTRT_SEND, kind == OPTRT_RECEIVE})
    addPointer(isOperand ? operand : kNone);
  append(result.collectives,
         {kind, OPTRT_SUM, static_cast<int32_t>(message.axis),
          static_cast<int32_t>(evaluate(*message.peer, coordinates)),
          message.rows, message.cols, message.ld, message.ld,
          typeOf(command, 0)});
  result.reductions.push_back(nullptr);
  return okStatus();
}

Status ProgramBinder::bind(const SendT &send, const CommandT &command) {
  return bindMessage(send, OPTRT_SEND, command);
}
Status ProgramBinder::bind(const ReceiveT &receive, const CommandT &command) {
  return bindMessage(receive, OPTRT_RECEIVE, command);
}

Status ProgramBinder::bind(const CollectiveT &collective,
                           const CommandT &command) {
  const ElementType type = command.operands[0]->type;
  if (collective.axes.size() != 1)
    return notHere("collective over several mesh axes");
  if (isQueued && collective.carried != 0)
    return notHere("collective that a later call waits for");
  result.commands.back().carried = collective.carried;
  addPointers(command, 2);
  append(result.collectives,
         {static_cast<int32_t>(collective.kind),
          static_cast<int32_t>(collective.reduction),
          static_cast<int32_t>(collective.axes[0]),
          static_cast<int32_t>(collective.root), collective.outer,
          collective.inner, collective.src_ld, collective.dst_ld,
          static_cast<int32_t>(type)});
  result.reductions.push_back(
      isQueued && collective.kernel != kNone
          ? kernels.find(result.target->kernels[collective.kernel]->name)
                ->second
          : nullptr);
  return okStatus();
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void ProgramBinder::bindOrder() {
  std::vector<Queue> queues;
  int numCopies = 0;
  for (const auto &queue : function.queues) {
    std::string name = "compute";
    if (queue->kind == QueueKind::Copies)
      name = ++numCopies == 1 ? "copies" : concat("copies", numCopies);
    for (uint32_t axis : queue->axes)
      name =
          concat(axis == queue->axes.front() ? "" : name + "+", "axis ", axis);
    queues.push_back(device.queue(name));
  }
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    BoundProgram::Bound &bound = result.commands[number];
    bound.queue = queues[command.queue];
    bound.firstAwaited = result.awaited.size();
    auto await = [&](uint32_t earlier) {
      if (function.commands[earlier]->queue == command.queue)
        return;
      result.awaited.push_back(earlier);
      result.commands[earlier].isAwaited = true;
    };
    for (uint32_t earlier : command.after)
      await(earlier);
    // It can be waited for when it has started.
    if (const WaitT *wait = command.action.AsWait();
        wait && wait->command != kNone)
      await(wait->command);
    bound.lastAwaited = result.awaited.size();
  }
}

Status ProgramBinder::bindGroups() {
  std::vector<uint32_t> latest(function.queues.size(), kNone);
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    BoundProgram::Bound &bound = result.commands[number];
    bound.firstOfGroup = bound.lastOfGroup = number;
    const uint32_t before = std::exchange(latest[command.queue], number);
    const uint32_t group = groupOf(command);
    if (group == 0 || before == kNone ||
        groupOf(*function.commands[before]) != group)
      continue;
    bound.firstOfGroup = result.commands[before].firstOfGroup;
    for (uint32_t i = bound.firstOfGroup; i != number; ++i)
      if (result.commands[i].lastOfGroup == before)
        result.commands[i].lastOfGroup = number;
  }
  for (uint32_t number = 0; number != function.commands.size(); ++number)
    for (uint32_t i = result.commands[number].firstAwaited;
         i != result.commands[number].lastAwaited; ++i)
      if (result.commands[result.awaited[i]].lastOfGroup > number)
        return notHere("command that comes after one of a group and before its "
                       "last")
            .withContext(result.describe(number));
  return okStatus();
}

} // namespace optrt
