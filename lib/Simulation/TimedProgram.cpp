//===- TimedProgram.cpp - Commands with their times -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/TimedProgram.h"

#include "optimus/Prices/ProgramWork.h"

#include <algorithm>
#include <cmath>
#include <fnmatch.h>

using namespace optimus_support::program;
using optimus_prices::CommandWork;
using optimus_prices::MachinePrices;
using optimus_prices::MachineProfile;
using optimus_prices::RankGroup;

namespace optimus_simulation {

Picoseconds toPicoseconds(double seconds) {
  return std::llround(std::min(seconds * 1e12, double(kMostTime)));
}

/// The number of a value in a list, which it is added to where it is new.
template <typename T>
static uint32_t numberOf(std::vector<T> &list, const T &value) {
  auto found = std::find(list.begin(), list.end(), value);
  if (found == list.end())
    found = list.insert(found, value);
  return static_cast<uint32_t>(found - list.begin());
}

/// Prices the commands of one function.
class FunctionTimer {
public:
  FunctionTimer(TimedProgram &program, const MachineProfile &machine,
                const MachinePrices &prices, const WhatIf &whatIf, double turns,
                TimedFunction &result)
      : program(program), machine(machine), prices(prices), whatIf(whatIf),
        turns(turns), result(result), function(*result.source),
        reuse(program.target, function) {}

  void run() {
    for (uint32_t number = 0; number != function.commands.size(); ++number)
      addCommand(number);
    markGroups();
  }

private:
  void addCommand(uint32_t number) {
    const CommandT &command = *function.commands[number];
    const std::vector<optimus_prices::Touch> touches = reuse.advance();
    TimedCommand &timed = result.commands.emplace_back();
    double seconds = 0;
    processors = 0;
    if (const WaitT *wait = command.action.AsWait()) {
      timed.kind = TimedCommand::Wait;
      timed.awaited = wait->command;
      timed.carried = wait->command == kNone ? wait->carried : 0;
    } else if (const CollectiveT *one = command.action.AsCollective()) {
      timed.kind = TimedCommand::Collective;
      seconds = describe(*one, command, timed);
    } else if (const SendT *send = command.action.AsSend()) {
      timed.kind = TimedCommand::Send;
      seconds = describe(*send, command, timed);
    } else if (const ReceiveT *receive = command.action.AsReceive()) {
      timed.kind = TimedCommand::Receive;
      seconds = describe(*receive, command, timed);
    } else if (isCopyBetweenMemories(command)) {
      timed.kind = TimedCommand::Copy;
      timed.name = command.queue;
      seconds = getCopySeconds(command, touches);
    } else {
      timed.name = numberOf(program.parts,
                            std::string(optimus_prices::getWorkName(command)));
      const CommandWork work =
          optimus_prices::getCommandWork(program.target, command);
      seconds = program.cores ? prices.getUnsharedSeconds(work, touches)
                              : prices.getSeconds(work, touches);
    }
    timed.scale = getScale(command);
    timed.seconds = toPicoseconds(seconds * turns * timed.scale);
    timed.processors = toPicoseconds(processors * timed.scale);
    for (uint32_t earlier : command.after)
      if (isCopyBetweenMemories(*function.commands[earlier]))
        result.afterCopies.push_back({number, earlier});
  }

  double describe(const CollectiveT &one, const CommandT &command,
                  TimedCommand &timed) {
    addExposure(one.axes, std::string(toString(one.kind)), timed);
    timed.carried = one.carried;
    const RankGroup group =
        optimus_prices::getRankGroup(program.mesh, one.axes);
    return getSeconds(one.kind, group,
                      optimus_prices::getWholeBytes(command, group.ranks));
  }

  /// A message is a broadcast to one.
  template <typename MessageT>
  double describe(const MessageT &message, const CommandT &command,
                  TimedCommand &timed) {
    addExposure({message.axis},
                timed.kind == TimedCommand::Send ? "send" : "receive", timed);
    timed.carried = message.carried;
    RankGroup pair =
        optimus_prices::getRankGroup(program.mesh, std::span(&message.axis, 1));
    pair.ranks = 2;
    const double bytes = 1.0 * message.rows * message.cols *
                         elementBytes(command.operands.front()->type);
    return getSeconds(CollectiveKind::Broadcast, pair, bytes);
  }

  double getSeconds(CollectiveKind kind, RankGroup group, double bytes) {
    processors = prices.getProcessorSeconds(kind, group, bytes);
    return prices.getSeconds(kind, group, bytes);
  }

  void addExposure(const std::vector<uint32_t> &axes, std::string kind,
                   TimedCommand &timed) {
    timed.axes = numberOf(program.axes, axes);
    timed.name = numberOf(program.exposures,
                          {axesName(program.mesh, axes), std::move(kind)});
  }

  bool isCopyBetweenMemories(const CommandT &command) const {
    return function.queues[command.queue]->kind == QueueKind::Copies;
  }

  /// The space of an operand, which is alike on all ranks.
  MemorySpace getSpace(const OperandT &operand) const {
    uint32_t address = operand.address;
    while (const ChoiceT *choice =
               function.addresses[address]->location.AsChoice())
      address = choice->mine;
    const PlaceT &place = *function.addresses[address]->location.AsPlace();
    if (place.base == Base::Arena)
      return function.arenas[place.index]->space;
    return place.base == Base::Argument ? function.arguments[place.index]->space
                                        : MemorySpace::Device;
  }

  /// Without a link between the memories, both are this one.
  double getCopySeconds(const CommandT &command,
                        std::span<const optimus_prices::Touch> touches) const {
    if (command.operands.size() != 2 || !machine.hostLink)
      return prices.getSeconds(CommandWork(), touches);
    const OperandT &destination = *command.operands[1];
    const bool isIn = getSpace(destination) == MemorySpace::Device;
    return machine.hostLink->alpha +
           1.0 * destination.rows * destination.row_bytes /
               (isIn ? machine.hostLink->in : machine.hostLink->out);
  }

  double getScale(const CommandT &command) {
    // Times 0 it stays 0.
    constexpr double kMost = 1e30;
    double scale = 1;
    for (size_t i = 0; i != whatIf.scalings.size(); ++i)
      if (matches(whatIf.scalings[i].pattern, command)) {
        scale = std::min(scale * whatIf.scalings[i].factor, kMost);
        ++program.scaled[i];
      }
    return scale;
  }

  bool matches(const std::string &pattern, const CommandT &command) const {
    auto isMatch = [&](const std::string &text) {
      return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
    };
    return (command.path != kNone &&
            isMatch(result.table->texts[command.path])) ||
           isMatch(std::string(optimus_prices::getWorkName(command))) ||
           isMatch(describeAction(program.target, command));
  }

  /// A group ends where the next of its queue is in another.
  void markGroups() {
    std::vector<uint32_t> next(function.queues.size());
    std::vector<uint32_t> position(function.queues.size(), kNone);
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      const TimedCommand::Kind kind = result.commands[number].kind;
      if (kind != TimedCommand::Collective && kind != TimedCommand::Send &&
          kind != TimedCommand::Receive)
        continue;
      const uint32_t group = groupOf(command);
      uint32_t &last = position[command.queue];
      if (group != 0 && last != kNone && next[command.queue] == group)
        result.commands[last].endsGroup = false;
      next[command.queue] = group;
      last = number;
    }
  }

  TimedProgram &program;
  const MachineProfile &machine;
  const MachinePrices &prices;
  const WhatIf &whatIf;
  const double turns; ///< lanes that a thread has one behind the other
  TimedFunction &result;
  const FunctionT &function;
  optimus_prices::ProgramReuse reuse;
  /// Of the present command.
  double processors = 0;
};

/// Each thread of a processor has lanes of its own: on one rank, they share the
/// machine as so many ranks do that never meet. A GPU has one behind the other.
static int64_t countParts(const MachineProfile &machine, int64_t lanes) {
  return machine.gpu ? 1
                     : std::clamp<int64_t>(
                           MachinePrices(machine, /*numRanks=*/1).getThreads(),
                           1, lanes);
}

TimedProgram::TimedProgram(const ProgramsT &programs, const TargetT &target,
                           const MachineProfile &machine, const WhatIf &whatIf)
    : mesh(meshOf(programs)), target(target), sharesLink(machine.axesShareLink),
      scaled(whatIf.scalings.size()) {
  MachineProfile changed = machine;
  changeNetwork(changed, whatIf.network);
  // Where there are several there is one table.
  const int64_t lanes = target.tables.front()->lanes;
  const int64_t parts = lanes == 1 ? 1 : countParts(changed, lanes);
  const MachinePrices prices(changed, mesh.numRanks() * parts);
  if (lanes == 1)
    cores = prices.getSharedCores();
  const double turns = std::ceil(double(lanes) / double(parts));
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    for (auto &list = functions.emplace_back();
         const std::unique_ptr<FunctionT> &function : table->functions) {
      TimedFunction &timed = list.emplace_back();
      timed.source = function.get();
      timed.table = table.get();
      FunctionTimer(*this, changed, prices, whatIf, turns, timed).run();
    }
}

const TimedFunction &TimedProgram::getFunction(int64_t rank,
                                               std::string_view name) const {
  const ProgramTableT &table = tableOf(target, rank);
  for (const std::vector<TimedFunction> &list : functions)
    for (const TimedFunction &function : list)
      if (function.table == &table && function.source->name == name)
        return function;
  return functions.front().front();
}

} // namespace optimus_simulation
