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
#include <set>
#include <utility>

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

/// By what commands are priced.
struct Pricing {
  const MachineProfile &machine;
  const MachinePrices &prices;
  /// Without a change of the network.
  const MachinePrices &unchanged;
  const WhatIf &whatIf;
  bool hasRun;
  double turns; ///< lanes that a thread has one behind the other
};

/// What a path is of, without the phase: "h.0.mlp.up backward" is of
/// "h.0.mlp.up".
static std::string_view getModule(std::string_view path) {
  return path.substr(0, path.find(' '));
}

/// The modules of a table by the numbers in which its functions' forward comes
/// to them, from 1 on.
static std::map<std::string, uint32_t, std::less<>>
numberModules(const ProgramTableT &table) {
  std::map<std::string, uint32_t, std::less<>> numbers;
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    for (const std::unique_ptr<CommandT> &command : function->commands) {
      if (command->path == kNone)
        continue;
      const std::string_view path = table.texts[command->path];
      if (getModule(path) == path)
        numbers.try_emplace(std::string(path), uint32_t(numbers.size()) + 1);
    }
  return numbers;
}

/// Prices the commands of one function.
class FunctionTimer {
public:
  FunctionTimer(TimedProgram &program, const Pricing &pricing, int64_t rank,
                TimedFunction &result)
      : program(program), machine(pricing.machine), prices(pricing.prices),
        unchanged(pricing.unchanged), whatIf(pricing.whatIf),
        hasRun(pricing.hasRun), turns(pricing.turns), rank(rank),
        result(result), function(*result.source),
        modules(whatIf.priorities.empty() ? Modules()
                                          : numberModules(*result.table)),
        reuse(program.target, function, prices.getRanksOfCore()) {}

  void time() {
    for (uint32_t number = 0; number != function.commands.size(); ++number)
      addCommand(number);
    for (size_t i = 0; i != whatIf.buckets.size(); ++i)
      fill(i);
    markGroups();
  }

private:
  void addCommand(uint32_t number) {
    const CommandT &command = *function.commands[number];
    const std::vector<optimus_prices::Touch> touches = reuse.advance();
    TimedCommand &timed = result.commands.emplace_back();
    double seconds = 0;
    processors = 0;
    change = 1;
    hasPoint = false;
    if (const WaitT *wait = command.action.AsWait()) {
      timed.kind = TimedCommand::Wait;
      timed.awaited = wait->command;
      timed.carried = wait->command == kNone ? wait->carried : 0;
    } else if (const CollectiveT *one = command.action.AsCollective()) {
      timed.kind = TimedCommand::Collective;
      seconds = describe(*one, command, touches, timed);
      timed.priority = getPriority(command);
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
      timed.name =
          program.numberPart(std::string(optimus_prices::getWorkName(command)));
      seconds = getComputeSeconds(command, touches);
      if (const double flops = countFlops(command); flops > 0)
        timed.atPeak =
            toPicoseconds(turns * flops /
                          prices.getPeak(optimus_prices::getCommandWork(
                                             program.target, command)
                                             .factors));
    }
    if (timed.kind != TimedCommand::Compute)
      fused.reset();
    timed.beside = getBeside(timed);
    timed.hasPoint = hasPoint;
    timed.scale = getScale(command);
    timed.inserted = getInserted(command);
    if (timed.inserted > 0)
      timed.insertedPart = program.numberPart(kInserted);
    if (const double stolen = timed.kind == TimedCommand::Copy && !hasRun
                                  ? getStolenSeconds(command)
                                  : 0;
        stolen > 0) {
      timed.inserted += toPicoseconds(stolen * turns);
      timed.insertedPart = program.numberPart(kCopying);
    }
    timed.price = seconds;
    timed.change = change;
    timed.seconds = toPicoseconds(seconds * turns * timed.scale);
    timed.processors = toPicoseconds(processors * timed.scale);
    for (uint32_t earlier : command.after)
      if (isCopyBetweenMemories(*function.commands[earlier]))
        result.afterCopies.push_back({number, earlier});
  }

  double describe(const CollectiveT &one, const CommandT &command,
                  std::span<const optimus_prices::Touch> touches,
                  TimedCommand &timed) {
    addExposure(one.axes, std::string(toString(one.kind)), timed);
    timed.carried = one.carried;
    const RankGroup group =
        optimus_prices::getRankGroup(program.mesh, one.axes);
    const double seconds = getSeconds(
        one.kind, group, optimus_prices::getWholeBytes(command, group.ranks));
    if (!program.cores || processors == 0)
      return seconds;
    // Threads move data when one of them waits for it.
    timed.isAwaited = program.takesTurns() && machine.backend == "local";
    // Of all members, on as many cores as they have.
    const double far =
        double(group.ranks) * prices.getFarSeconds(group, touches);
    processors += far;
    return seconds + far / double(std::min(group.ranks, program.cores->cores));
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
    const double seconds = prices.getSeconds(kind, group, bytes);
    hasPoint = prices.hasPoints(kind, group, bytes);
    setChange(seconds, unchanged.getSeconds(kind, group, bytes));
    return seconds;
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

  /// What moves between the device's memory and another.
  struct Move {
    MemorySpace space = MemorySpace::Device; ///< the other
    bool isIn = false;
    double bytes = 0;
  };
  Move getMove(const CommandT &command) const {
    Move move;
    if (command.operands.size() != 2)
      return move;
    const OperandT &destination = *command.operands[1];
    move.isIn = getSpace(destination) == MemorySpace::Device;
    move.space = getSpace(move.isIn ? *command.operands[0] : destination);
    move.bytes = 1.0 * destination.rows * destination.row_bytes;
    return move;
  }

  /// Without a link between the memories, both are this one.
  double getCopySeconds(const CommandT &command,
                        std::span<const optimus_prices::Touch> touches) const {
    const Move move = getMove(command);
    auto over = [&](const optimus_prices::HostLink &link) {
      return link.alpha + move.bytes / (move.isIn ? link.in : link.out);
    };
    if (move.space == MemorySpace::Host && machine.hostLink)
      return over(*machine.hostLink);
    if (move.space == MemorySpace::File && machine.scratch)
      return over(*machine.scratch);
    return prices.getSeconds(CommandWork(), touches);
  }

  /// By how much a copy delays the rank's own thread on its core; others wait
  /// for the thread. Nothing where a core is idle.
  double getStolenSeconds(const CommandT &command) const {
    const Move move = getMove(command);
    if (move.space != MemorySpace::File || !machine.scratch ||
        prices.hasIdleCores())
      return 0;
    return move.bytes * (move.isIn ? machine.scratch->inProcessorSeconds
                                   : machine.scratch->outProcessorSeconds);
  }

  double getSeconds(const CommandWork &work,
                    std::span<const optimus_prices::Touch> touches) {
    hasPoint = prices.hasPoint(work);
    return program.cores ? prices.getUnsharedSeconds(work, touches)
                         : prices.getSeconds(work, touches);
  }

  /// Of a kernel that is fused with earlier ones, its part of their time.
  double getComputeSeconds(const CommandT &command,
                           std::vector<optimus_prices::Touch> touches) {
    const CommandWork work =
        optimus_prices::getCommandWork(program.target, command);
    const size_t fusion = findFusion(command, work);
    if (fusion == whatIf.fusions.size()) {
      fused.reset();
      return getSeconds(work, touches);
    }
    for (optimus_prices::Touch &one : touches)
      one.buffer = getPlace(static_cast<uint32_t>(one.buffer));
    if (!fused || fused->fusion != fusion) {
      fused.emplace(fusion, work, touches);
      return getSeconds(work, touches);
    }
    ++program.matches[getFirstMatch(whatIf.fusions) + fusion].count;
    const double before = getSeconds(fused->work, fused->touches);
    fused->add(work, touches);
    const double seconds =
        std::max(0.0, getSeconds(fused->work, fused->touches) - before);
    setChange(seconds, getSeconds(work, touches));
    return seconds;
  }

  void setChange(double seconds, double before) {
    change = before > 0 ? seconds / before : 1;
  }

  /// A number that all addresses of one place have, as far as the table says
  /// without a rank's choices.
  uint64_t getPlace(uint32_t address) {
    const PlaceT *place = function.addresses[address]->location.AsPlace();
    std::vector<int64_t> key{int64_t(address)};
    if (place) {
      key = {-1, int64_t(place->base), place->index, place->bytes->constant};
      for (const Term &term : place->bytes->terms) {
        key.push_back(term.scale());
        key.push_back(term.axis());
      }
    }
    return places.try_emplace(std::move(key), places.size()).first->second;
  }

  /// The first that a command takes part in, if it is a kernel or a copy.
  /// Products and attention are fused by nobody.
  size_t findFusion(const CommandT &command, const CommandWork &work) const {
    if (work.work.kind != optimus_prices::Work::Traffic)
      return whatIf.fusions.size();
    return std::find_if(whatIf.fusions.begin(), whatIf.fusions.end(),
                        [&](const Fusion &one) { return isOf(one, command); }) -
           whatIf.fusions.begin();
  }

  double getBeside(const TimedCommand &timed) const {
    const auto &factors = program.interference;
    if (!factors || timed.kind == TimedCommand::Copy ||
        timed.kind == TimedCommand::Wait)
      return 1;
    return timed.kind == TimedCommand::Compute
               ? optimus_prices::getFactor(factors->computing,
                                           program.parts[timed.name])
               : optimus_prices::getFactor(factors->collectives,
                                           program.exposures[timed.name].kind);
  }

  double getScale(const CommandT &command) {
    // Times 0 it stays 0.
    constexpr double kMost = 1e30;
    double scale = 1;
    forEachMet(whatIf.scalings, command, [&](const Scaling &one) {
      scale = std::min(scale * one.factor, kMost);
    });
    return scale;
  }

  /// Of a module that forward lacks, behind all others.
  uint32_t getPriority(const CommandT &command) {
    uint32_t priority = 0;
    forEachMet(whatIf.priorities, command, [&](const Priority &) {
      const auto found =
          command.path == kNone
              ? modules.end()
              : modules.find(getModule(result.table->texts[command.path]));
      priority =
          found == modules.end() ? uint32_t(modules.size()) + 1 : found->second;
    });
    return priority;
  }

  Picoseconds getInserted(const CommandT &command) {
    double seconds = 0;
    forEachMet(whatIf.insertions, command,
               [&](const Insertion &one) { seconds += one.seconds; });
    return toPicoseconds(seconds * turns);
  }

  /// The number of a list's first change among the matches.
  size_t getFirstMatch(const std::vector<Scaling> &) const { return 0; }
  size_t getFirstMatch(const std::vector<Insertion> &) const {
    return whatIf.scalings.size();
  }
  size_t getFirstMatch(const std::vector<Fusion> &) const {
    return whatIf.scalings.size() + whatIf.insertions.size();
  }
  size_t getFirstMatch(const std::vector<Bucket> &) const {
    return getFirstMatch(whatIf.fusions) + whatIf.fusions.size();
  }
  size_t getFirstMatch(const std::vector<Priority> &) const {
    return getFirstMatch(whatIf.buckets) + whatIf.buckets.size();
  }

  template <typename Change, typename Visit>
  void forEachMet(const std::vector<Change> &changes, const CommandT &command,
                  Visit visit) {
    for (size_t i = 0; i != changes.size(); ++i)
      if (isOf(changes[i], command)) {
        visit(changes[i]);
        ++program.matches[getFirstMatch(changes) + i].count;
      }
  }

  template <typename Change>
  bool isOf(const Change &change, const CommandT &command) const {
    return (change.rank == kAllRanks || change.rank == rank) &&
           matches(change.pattern, command);
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

  /// Collectives that move together, by number, and their bytes.
  struct Together {
    std::vector<uint32_t> members;
    double bytes = 0;
  };

  /// Moves collectives in the buckets of a change.
  void fill(size_t change) {
    const Bucket &bucket = whatIf.buckets[change];
    // By axes and kind.
    std::map<std::pair<uint32_t, CollectiveKind>, Together> open;
    movedBy.assign(function.commands.size(), kNone);
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      TimedCommand &timed = result.commands[number];
      if (timed.kind == TimedCommand::Wait && timed.awaited != kNone) {
        for (auto &[key, together] : open)
          if (std::ranges::count(together.members, timed.awaited))
            close(change, together);
        if (const uint32_t last = movedBy[timed.awaited]; last != kNone)
          timed.awaited = last;
      }
      if (timed.kind != TimedCommand::Collective || timed.carried != 0 ||
          !isOf(bucket, command))
        continue;
      const CollectiveT &one = *command.action.AsCollective();
      const double bytes = optimus_prices::getWholeBytes(
          command, optimus_prices::getRankGroup(program.mesh, one.axes).ranks);
      Together &together = open[{timed.axes, one.kind}];
      if (together.bytes + bytes > bucket.bytes)
        close(change, together);
      together.members.push_back(number);
      together.bytes += bytes;
    }
    for (auto &[key, together] : open)
      close(change, together);
  }

  /// The last of them moves all, and is what later commands wait for in place
  /// of the others.
  void close(size_t change, Together &together) {
    const auto [members, bytes] = std::exchange(together, {});
    if (members.size() < 2)
      return;
    program.matches[getFirstMatch(whatIf.buckets) + change].count +=
        int64_t(members.size());
    const uint32_t last = members.back();
    TimedCommand &all = result.commands[last];
    const CollectiveT &one = *function.commands[last]->action.AsCollective();
    const RankGroup group =
        optimus_prices::getRankGroup(program.mesh, one.axes);
    const double own =
        optimus_prices::getWholeBytes(*function.commands[last], group.ranks);
    const double longer = getSeconds(one.kind, group, bytes) /
                          prices.getSeconds(one.kind, group, own);
    all.seconds = toPicoseconds(double(all.seconds) * 1e-12 * longer);
    all.processors = toPicoseconds(processors * all.scale);
    all.price *= longer;
    all.change *= longer;
    all.scale *= bytes / own;
    for (uint32_t member : members) {
      movedBy[member] = last;
      if (member == last)
        continue;
      TimedCommand &timed = result.commands[member];
      if (timed.priority != 0)
        all.priority = all.priority == 0
                           ? timed.priority
                           : std::min(all.priority, timed.priority);
      timed.kind = TimedCommand::Compute;
      timed.name = program.numberPart(kInserted);
      timed.seconds = timed.processors = 0;
      timed.price = timed.change = 0;
    }
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

  /// Kernels that are one so far.
  struct Fused {
    Fused(size_t fusion, const CommandWork &work,
          const std::vector<optimus_prices::Touch> &touches)
        : fusion(fusion), work(work), touches(touches) {}

    void add(const CommandWork &more,
             const std::vector<optimus_prices::Touch> &others) {
      work.isKernel |= more.isKernel;
      work.kernel += more.kernel;
      work.tasks = std::max(work.tasks, more.tasks);
      for (optimus_prices::Touch one : others) {
        for (const optimus_prices::Touch &own : touches)
          one.reads &=
              own.buffer != one.buffer || !own.writes || own.bytes < one.bytes;
        if (one.reads || one.writes)
          touches.push_back(one);
      }
    }

    size_t fusion;
    CommandWork work;
    std::vector<optimus_prices::Touch> touches;
  };

  TimedProgram &program;
  const MachineProfile &machine;
  const MachinePrices &prices, &unchanged;
  const WhatIf &whatIf;
  const bool hasRun;
  const double turns;
  const int64_t rank; ///< or kAllRanks
  TimedFunction &result;
  const FunctionT &function;
  using Modules = std::map<std::string, uint32_t, std::less<>>;
  const Modules modules;
  optimus_prices::ProgramReuse reuse;
  std::optional<Fused> fused;
  std::map<std::vector<int64_t>, uint64_t> places;
  /// Of a bucket's collectives the one by which they move; else kNone.
  std::vector<uint32_t> movedBy;
  /// Of the present command: of processors, and how much longer it takes by the
  /// changes in its formula.
  double processors = 0, change = 1;
  /// Whether just that was timed.
  bool hasPoint = false;
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
                           const MachineProfile &machine, const WhatIf &whatIf,
                           const optimus_prices::RunTimes *run)
    : mesh(meshOf(programs)), target(target), sharesLink(machine.axesShareLink),
      interference(machine.interference), run(run) {
  std::set<int64_t> ranks;
  auto addMatches = [&](const auto &changes, const char *needed) {
    for (const auto &one : changes) {
      matches.push_back({one.pattern, one.origin, needed});
      if (one.rank != kAllRanks)
        ranks.insert(one.rank);
    }
  };
  addMatches(whatIf.scalings, "command");
  addMatches(whatIf.insertions, "command");
  addMatches(whatIf.fusions, "two kernels in a row");
  addMatches(whatIf.buckets, "two collectives in a row");
  addMatches(whatIf.priorities, "collective");
  MachineProfile changed = machine;
  changeNetwork(changed, whatIf.network);
  // Where there are several there is one table.
  const int64_t lanes = target.tables.front()->lanes;
  const int64_t parts = lanes == 1 ? 1 : countParts(changed, lanes);
  const MachinePrices prices(changed, mesh.numRanks() * parts);
  unchanged =
      std::make_shared<const MachinePrices>(machine, mesh.numRanks() * parts);
  turns = std::ceil(double(lanes) / double(parts));
  // Ranks of several hosts were not on the cores of this machine.
  if (lanes == 1 && (!run || run->getProfile().hasOneClock()))
    cores = prices.getSharedCores();
  const Pricing pricing{.machine = changed,
                        .prices = prices,
                        .unchanged = *unchanged,
                        .whatIf = whatIf,
                        .hasRun = run != nullptr,
                        .turns = turns};
  auto time = [&](const ProgramTableT &table, int64_t rank) {
    std::vector<TimedFunction> list;
    for (const std::unique_ptr<FunctionT> &function : table.functions) {
      TimedFunction &timed = list.emplace_back();
      timed.source = function.get();
      timed.table = &table;
      FunctionTimer(*this, pricing, rank, timed).time();
    }
    return list;
  };
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    functions.push_back(time(*table, kAllRanks));
  for (int64_t rank : ranks)
    ofRanks.emplace(rank, time(tableOf(target, rank), rank));
  if (run)
    beginRun();
}

uint32_t TimedProgram::numberPart(const std::string &name) {
  return numberOf(parts, name);
}

const std::string &TimedProgram::getName(const TimedCommand &command) const {
  static const std::string kCopies = "copies between memories";
  switch (command.kind) {
  case TimedCommand::Compute:
    return parts[command.name];
  case TimedCommand::Copy:
    return kCopies;
  default:
    return exposures[command.name].kind;
  }
}

size_t TimedProgram::getTable(int64_t rank) const {
  return std::find_if(target.tables.begin(), target.tables.end(),
                      [&](const std::unique_ptr<ProgramTableT> &table) {
                        return table.get() == &tableOf(target, rank);
                      }) -
         target.tables.begin();
}

const std::vector<TimedFunction> &TimedProgram::getPriced(int64_t rank) const {
  const auto own = ofRanks.find(rank);
  return own != ofRanks.end() ? own->second : functions[getTable(rank)];
}

const TimedFunction &TimedProgram::getFunction(int64_t rank,
                                               std::string_view name) const {
  const auto own = ofRun.find(rank);
  for (const TimedFunction &function :
       own != ofRun.end() ? own->second : getPriced(rank))
    if (function.source->name == name)
      return function;
  return functions.front().front();
}

} // namespace optimus_simulation
