//===- ProgramSequenceCheck.cpp - That calls fit each other ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include "optimus-support/ProgramRegions.h"
#include "optimus-support/ProgramSequence.h"
#include "optimus-support/model_abi.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace optimus_support::program {

namespace {

bool reads(const ArgumentT &argument) {
  return argument.access != Access::Write;
}
bool writes(const ArgumentT &argument) {
  return argument.access != Access::Read;
}

std::string_view accessName(Access access) {
  return access == Access::Read    ? "read"
         : access == Access::Write ? "written"
                                   : "updated";
}

/// The functions that prepare buffers, by the names of these.
using Preparers = std::map<std::string, const FunctionT *>;

Preparers preparersOf(const ProgramTableT &table) {
  Preparers preparers;
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    for (const std::unique_ptr<ArgumentT> &argument : function->arguments)
      if (function->prepares && writes(*argument))
        preparers.emplace(argument->buffer, function.get());
  return preparers;
}

/// Steps through a sequence, and knows the fresh ones of prepared buffers.
class Freshness {
public:
  explicit Freshness(const ProgramTableT &table)
      : preparers(preparersOf(table)) {}

  Status step(const SequencedCall &call, const FunctionT &function) {
    if (preparers.empty())
      return okStatus();
    std::vector<const std::string *> buffers;
    for (const std::unique_ptr<ArgumentT> &argument : function.arguments)
      buffers.push_back(&argument->buffer);
    for (const std::unique_ptr<BindingT> &binding : call.call->bindings) {
      const std::string &given = call.bufferOf(*binding);
      for (const std::string *name : {buffers[binding->argument], &given})
        if (preparers.contains(*name))
          return wrong(concat("binds argument ", binding->argument,
                              "; expected \"", printable(*name),
                              "\" to be passed as it is: it is prepared"));
      buffers[binding->argument] = &given;
    }
    for (size_t i = 0; i != buffers.size(); ++i)
      if (reads(*function.arguments[i]) && preparers.contains(*buffers[i]) &&
          !fresh.contains(*buffers[i]))
        return wrong(explain(*buffers[i]));
    for (size_t i = 0; i != buffers.size(); ++i)
      if (writes(*function.arguments[i]))
        note(function, *buffers[i]);
    return okStatus();
  }

private:
  static bool isSource(const FunctionT &preparer, const std::string &buffer) {
    return std::any_of(preparer.arguments.begin(), preparer.arguments.end(),
                       [&](const std::unique_ptr<ArgumentT> &argument) {
                         return !writes(*argument) &&
                                argument->buffer == buffer;
                       });
  }

  std::string explain(const std::string &buffer) const {
    const auto change = changes.find(buffer);
    return concat(
        "reads \"", printable(buffer), "\"; expected an earlier call of ",
        preparers.at(buffer)->name, ", which prepares it",
        change == changes.end() ? "" : concat(", after ", change->second));
  }

  void note(const FunctionT &function, const std::string &buffer) {
    if (preparers.contains(buffer)) {
      fresh.insert(buffer);
      return;
    }
    for (const auto &[prepared, preparer] : preparers)
      if (isSource(*preparer, buffer) && fresh.erase(prepared) != 0)
        changes[prepared] =
            concat(function.name, " has written \"", printable(buffer), "\"");
  }

  const Preparers preparers;
  std::set<std::string> fresh;
  std::map<std::string, std::string> changes; ///< by which each became stale
};

/// The commands on each argument of a function, and the waits for earlier calls
/// before each command.
class CarriedOrder {
public:
  CarriedOrder(const FunctionT &function, const Mesh &mesh)
      : function(function), mesh(mesh), touching(function.arguments.size()) {
    for (uint32_t number = 0; number != function.commands.size(); ++number)
      if (const WaitT *wait = function.commands[number]->action.AsWait();
          wait && wait->carried != 0)
        waits.push_back(wait->carried);
    collectKnown();
    for (uint32_t number = 0; number != function.commands.size(); ++number)
      for (const auto &[argument, access] :
           argumentsOf(*function.commands[number]))
        touching[argument].emplace_back(number, access);
  }

  /// Commands of the arguments that one touches.
  std::vector<std::pair<uint32_t, Access>>
  argumentsOf(const CommandT &command) const {
    std::vector<std::pair<uint32_t, Access>> list;
    for (const Touch &touch : touchesOf(function, command, mesh))
      if (touch.region.base == Base::Argument)
        list.emplace_back(touch.region.index,
                          touch.writes ? Access::Write : Access::Read);
    return list;
  }

  /// The first command on an argument that comes behind no wait for a number.
  /// Without `written`, only commands that write count.
  uint32_t findEarly(uint32_t argument, uint32_t token, bool written) const {
    for (const auto &[number, access] : touching[argument])
      if ((written || access == Access::Write) && !knows(number, token))
        return number;
    return kNone;
  }

private:
  using Bits = std::vector<bool>;

  void collectKnown() {
    std::vector<uint32_t> last(function.queues.size(), kNone);
    known.reserve(function.commands.size());
    auto join = [](Bits &to, const Bits &from) {
      for (size_t i = 0; i != to.size(); ++i)
        to[i] = to[i] || from[i];
    };
    auto joinDone = [&](Bits &to, uint32_t earlier) {
      join(to, known[earlier]);
      const WaitT *wait = function.commands[earlier]->action.AsWait();
      for (size_t i = 0; wait && wait->carried != 0 && i != to.size(); ++i)
        to[i] = to[i] || waits[i] == wait->carried;
    };
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      Bits bits(waits.size());
      if (uint32_t before = std::exchange(last[command.queue], number);
          before != kNone)
        joinDone(bits, before);
      for (uint32_t earlier : command.after)
        joinDone(bits, earlier);
      if (const WaitT *wait = command.action.AsWait();
          wait && wait->command != kNone)
        join(bits, known[wait->command]);
      known.push_back(std::move(bits));
    }
  }

  bool knows(uint32_t number, uint32_t token) const {
    for (size_t i = 0; i != waits.size(); ++i)
      if (waits[i] == token && known[number][i])
        return true;
    return false;
  }

  const FunctionT &function;
  const Mesh &mesh;
  std::vector<uint32_t> waits; ///< their numbers, in order
  std::vector<Bits> known;     ///< of each command, which waits are done
  /// Of each argument, the commands that touch it.
  std::vector<std::vector<std::pair<uint32_t, Access>>> touching;
};

/// Of a sequence, with loops that the caller counts turned twice.
constexpr size_t kMaxSteps = size_t(1) << 24;

/// Steps through a sequence on the ranks of a table.
class SequenceChecker {
public:
  SequenceChecker(const TargetT &target, const ProgramTableT &table,
                  const Mesh &mesh)
      : target(target), table(table), mesh(mesh), freshness(table) {}

  Status run(const SequenceT &sequence) {
    const std::vector<SequencePart> parts = partsOf(sequence);
    for (const SequencePart &part : parts)
      for (const auto *calls : {&part.once, &part.repeated})
        for (const SequencedCall &call : *calls)
          note(*findFunction(table, call.call->function));
    OPTRT_RETURN_IF_ERROR(run(parts));
    if (carried.empty())
      return okStatus();
    for (const auto &[number, start] : carried)
      if (!awaited.contains(number))
        return wrong(concat(start.name, " is carried under number ", number,
                            ", and nothing in the sequence waits for it"));
    // It may begin with what it has left under way: the second time stands for
    // all later ones.
    const auto before = carried;
    OPTRT_RETURN_IF_ERROR(
        run(parts).withContext("when it is run a second time"));
    for (const auto &[number, start] : before)
      if (!carried.contains(number))
        return wrong(concat(start.name, " is carried under number ", number,
                            " when the sequence has run once, and not when it "
                            "has run twice"));
    return okStatus();
  }

private:
  /// What the sequence starts and waits for.
  void note(const FunctionT &function) {
    if (!noted.insert(&function).second)
      return;
    for (const std::unique_ptr<CommandT> &command : function.commands) {
      if (const WaitT *wait = command->action.AsWait())
        awaited.insert(wait->carried);
      startedUnder.insert(carriedOf(*command));
    }
  }

  Status run(const std::vector<SequencePart> &parts) {
    for (const SequencePart &part : parts) {
      OPTRT_RETURN_IF_ERROR(run(part.once));
      // The second turn stands for all later ones.
      OPTRT_RETURN_IF_ERROR(run(part.repeated));
      OPTRT_RETURN_IF_ERROR(run(part.repeated));
    }
    return okStatus();
  }

  Status run(const std::vector<SequencedCall> &calls) {
    for (const SequencedCall &call : calls) {
      const FunctionT &function = *findFunction(table, call.call->function);
      Status status = freshness.step(call, function);
      if (status.ok())
        status = step(call, function);
      OPTRT_RETURN_IF_ERROR(status.withContext(call.name()));
    }
    return okStatus();
  }

  /// A call that carries nothing, while nothing is carried, leaves all as it
  /// is.
  bool matters(const FunctionT &function) {
    if (!carried.empty())
      return true;
    auto [place, isNew] = carries.try_emplace(&function, false);
    if (isNew)
      place->second = std::any_of(
          function.commands.begin(), function.commands.end(),
          [](const std::unique_ptr<CommandT> &command) {
            const WaitT *wait = command->action.AsWait();
            return carriedOf(*command) != 0 || (wait && wait->carried != 0);
          });
    return place->second;
  }

  struct Start {
    std::string name;
    std::vector<uint32_t> axes;
    size_t number; ///< among the starts on these axes
    /// Buffers that it touches, and whether it writes them.
    std::map<std::string, bool> buffers;
  };

  const CarriedOrder &orderOf(const FunctionT &function) {
    return orders.try_emplace(&function, function, mesh).first->second;
  }

  /// What a call passes as its function's arguments.
  static std::vector<const std::string *> buffersOf(const SequencedCall &call,
                                                    const FunctionT &function) {
    std::vector<const std::string *> buffers;
    for (const std::unique_ptr<ArgumentT> &argument : function.arguments)
      buffers.push_back(&argument->buffer);
    for (const std::unique_ptr<BindingT> &binding : call.call->bindings)
      buffers[binding->argument] = &call.bufferOf(*binding);
    return buffers;
  }

  /// What is under way when a call begins keeps its memory until the wait.
  Status checkMemory(const FunctionT &function,
                     const std::vector<const std::string *> &buffers) {
    for (const auto &[token, start] : carried)
      for (uint32_t i = 0; i != buffers.size(); ++i) {
        const auto used = start.buffers.find(*buffers[i]);
        if (used == start.buffers.end())
          continue;
        const uint32_t number =
            orderOf(function).findEarly(i, token, used->second);
        if (number != kNone)
          return wrong(concat(nameWithNumber(target, table, function, number),
                              " touches \"", printable(*buffers[i]), "\" of ",
                              start.name, ", which is carried under number ",
                              token, ", and comes after no wait for it"));
      }
    return okStatus();
  }

  Status step(const SequencedCall &call, const FunctionT &function) {
    if (!matters(function))
      return okStatus();
    const std::vector<const std::string *> buffers = buffersOf(call, function);
    OPTRT_RETURN_IF_ERROR(checkMemory(function, buffers));
    numSteps += function.commands.size();
    if (numSteps > kMaxSteps)
      return wrong(concat("the sequence has more than ", kMaxSteps,
                          " commands while something is carried"));
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      const std::vector<uint32_t> &axes = function.queues[command.queue]->axes;
      if (const WaitT *wait = command.action.AsWait()) {
        OPTRT_RETURN_IF_ERROR(endWait(function, number, *wait));
        continue;
      }
      if (!isAsynchronous(command))
        continue;
      if (++underWay[axes] > OPTRT_MAX_IN_FLIGHT)
        return wrong(concat(nameWithNumber(target, table, function, number),
                            " starts while ", OPTRT_MAX_IN_FLIGHT,
                            " others of its queue are under way, some from "
                            "earlier calls"));
      OPTRT_RETURN_IF_ERROR(checkWindow(function, number, axes));
      const uint32_t token = carriedOf(command);
      if (token == 0)
        continue;
      std::string name = nameWithNumber(target, table, function, number);
      auto [place, isNew] =
          carried.try_emplace(token, Start{name, axes, numStarts[axes], {}});
      if (!isNew)
        return wrong(concat(name, " is carried under number ", token,
                            ", as is ", place->second.name,
                            ", which nothing has waited for"));
      for (const auto &[argument, access] :
           orderOf(function).argumentsOf(command))
        if (!buffers[argument]->empty())
          place->second.buffers[*buffers[argument]] |= access == Access::Write;
    }
    return okStatus();
  }

  /// At most so many start on a queue until the wait for what is carried.
  Status checkWindow(const FunctionT &function, uint32_t number,
                     const std::vector<uint32_t> &axes) {
    const size_t started = ++numStarts[axes];
    for (const auto &[token, start] : carried)
      if (start.axes == axes && start.number + OPTRT_MAX_IN_FLIGHT <= started)
        return wrong(concat(nameWithNumber(target, table, function, number),
                            " starts while ", start.name, ", which started ",
                            OPTRT_MAX_IN_FLIGHT,
                            " before it on its queue, is "
                            "under way"));
    return okStatus();
  }

  Status endWait(const FunctionT &function, uint32_t number,
                 const WaitT &wait) {
    if (wait.command != kNone) {
      const CommandT &started = *function.commands[wait.command];
      --underWay[function.queues[started.queue]->axes];
      return okStatus();
    }
    auto start = carried.find(wait.carried);
    // Before a first start, and on later turns of a loop, nothing is under way.
    if (start == carried.end() && startedUnder.contains(wait.carried))
      return okStatus();
    if (start == carried.end())
      return wrong(concat(nameWithNumber(target, table, function, number),
                          " waits for number ", wait.carried,
                          ", under which nothing in the sequence is started"));
    --underWay[start->second.axes];
    carried.erase(start);
    return okStatus();
  }

  const TargetT &target;
  const ProgramTableT &table;
  const Mesh &mesh;
  Freshness freshness;
  std::set<const FunctionT *> noted;
  std::set<uint32_t> awaited, startedUnder;
  std::map<const FunctionT *, CarriedOrder> orders;
  std::map<const FunctionT *, bool> carries;
  size_t numSteps = 0;
  std::map<uint32_t, Start> carried;
  std::map<std::vector<uint32_t>, int> underWay;
  std::map<std::vector<uint32_t>, size_t> numStarts;
};

} // namespace

/// Whether a command of a function writes all of an argument.
static bool isFilled(const FunctionT &function, uint32_t argument) {
  auto fills = [&](const OperandT &operand) {
    if (operand.access != Access::Write || operand.address == kNone ||
        (operand.rows > 1 && operand.pitch != operand.row_bytes))
      return false;
    const PlaceT *place =
        function.addresses[operand.address]->location.AsPlace();
    return place && place->base == Base::Argument && place->index == argument &&
           place->bytes->constant == 0 && place->bytes->terms.empty() &&
           operand.rows * operand.row_bytes ==
               function.arguments[argument]->bytes;
  };
  for (const std::unique_ptr<CommandT> &command : function.commands)
    for (const std::unique_ptr<OperandT> &operand : command->operands)
      if (fills(*operand))
        return true;
  return false;
}

Status checkPrepared(const ProgramTableT &table, const Mesh &mesh) {
  const Preparers preparers = preparersOf(table);
  for (const std::unique_ptr<FunctionT> &function : table.functions) {
    if (preparers.empty())
      return okStatus();
    const std::vector<Access> accesses = argumentAccess(*function, mesh);
    for (uint32_t i = 0; i != function->arguments.size(); ++i) {
      const ArgumentT &argument = *function->arguments[i];
      auto refuse = [&](const std::string &expected) {
        return wrong(concat(
            function->name, ": argument ", i, ", \"", argument.buffer,
            "\", is ", accessName(argument.access), "; expected ", expected));
      };
      if (argument.access != accesses[i])
        return refuse(concat("it to be ", accessName(accesses[i]),
                             ", as its commands do"));
      const auto found = preparers.find(argument.buffer);
      if (!function->prepares && found != preparers.end() && writes(argument))
        return refuse(
            concat("it to be read: ", found->second->name, " prepares it"));
      if (!function->prepares)
        continue;
      if (argument.access == Access::Update || argument.buffer.empty())
        return refuse("what is prepared, or its source, under a name");
      if (found != preparers.end() &&
          (found->second != function.get() || !writes(argument)))
        return refuse("nothing that another function prepares");
      if (writes(argument) && !isFilled(*function, i))
        return refuse("a command that fills all of it");
    }
  }
  return okStatus();
}

Status checkCarried(const ProgramTableT &table) {
  std::set<uint32_t> started;
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    for (const std::unique_ptr<CommandT> &command : function->commands)
      if (uint32_t carried = carriedOf(*command))
        started.insert(carried);
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    for (uint32_t i = 0; i != function->commands.size(); ++i) {
      const WaitT *wait = function->commands[i]->action.AsWait();
      if (wait && wait->carried != 0 && !started.contains(wait->carried))
        return wrong(concat("function ", function->name, ": command ", i,
                            " waits for number ", wait->carried,
                            ", under which no call starts anything"));
    }
  return okStatus();
}

Status checkSequence(const SequenceT &sequence, const TargetT &target,
                     const ProgramTableT &table, const Mesh &mesh) {
  OPTRT_RETURN_IF_ERROR(checkSteps(sequence, table));
  return SequenceChecker(target, table, mesh).run(sequence);
}

} // namespace optimus_support::program
