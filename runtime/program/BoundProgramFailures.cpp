//===- BoundProgramFailures.cpp - Which command a failure is of -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgram.h"

#include <algorithm>

namespace optrt {

void BoundProgram::noteWait(uint32_t number) {
  auto note = [this](Queue queue, uint32_t before) {
    if (queue.number >= done.size())
      done.resize(queue.number + 1);
    done[queue.number] = std::max(done[queue.number], before);
  };
  const Bound &command = commands[number];
  note(command.queue, number);
  for (uint32_t i = command.firstAwaited; i != command.lastAwaited; ++i)
    note(commands[awaited[i]].queue, awaited[i] + 1);
}

std::string BoundProgram::describeSuspects() const {
  std::vector<uint32_t> suspects;
  for (uint32_t number = 0; number != numSubmitted; ++number) {
    const uint32_t queue = commands[number].queue.number;
    if (queue >= done.size() || number >= done[queue])
      suspects.push_back(number);
  }
  if (suspects.empty())
    return "the command that met it is one of an earlier call";
  if (suspects.size() == 1)
    return concat("the command that met it is ", describe(suspects[0]));
  return concat("the command that met it is one of ", suspects.size(),
                ", from ", describe(suspects.front()), " to ",
                describe(suspects.back()));
}

Status BoundProgram::locate(const Rank &rank, const Status &status) const {
  if (status.ok())
    return status;
  const Status located =
      status.withContext(concat("rank ", rank.rank, ", ", described->name));
  const std::string advice = rank.device->adviceOnLateFailure();
  return advice.empty()
             ? located
             : located.withAdvice(describeSuspects()).withAdvice(advice);
}

} // namespace optrt
