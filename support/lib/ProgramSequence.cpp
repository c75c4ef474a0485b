//===- ProgramSequence.cpp - That ranks and calls fit together ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include "optimus-support/ProgramRegions.h"
#include "optimus-support/model_abi.h"

#include <algorithm>
#include <map>
#include <set>

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

/// "h.3.mlp.up (all_reduce, gpt2.py:151), command 12".
std::string nameOf(const TargetT &target, const ProgramTableT &table,
                   const FunctionT &function, uint32_t command) {
  std::string text = describe(target, table, function, command);
  return function.commands[command]->path == kNone
             ? text
             : concat(text, ", command ", command);
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

  Status step(const CallT &call, const FunctionT &function) {
    if (preparers.empty())
      return okStatus();
    std::vector<const std::string *> buffers;
    for (const std::unique_ptr<ArgumentT> &argument : function.arguments)
      buffers.push_back(&argument->buffer);
    for (const std::unique_ptr<BindingT> &binding : call.bindings) {
      const std::string &given = binding->buffer;
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

/// Of a sequence, with calls that are repeated twice.
constexpr size_t kMaxSteps = size_t(1) << 24;

/// Steps through a sequence on the ranks of a table.
class SequenceChecker {
public:
  SequenceChecker(const TargetT &target, const ProgramTableT &table)
      : target(target), table(table) {}

  Status run(const SequenceT &sequence) {
    Freshness freshness(table);
    for (size_t i = 0; i != sequence.calls.size(); ++i) {
      const CallT &call = *sequence.calls[i];
      const FunctionT &function = *findFunction(table, call.function);
      // The second call in a row stands for all later ones.
      for (int time = 0; time != (call.times == 1 ? 1 : 2); ++time) {
        Status status = freshness.step(call, function);
        if (status.ok())
          status = step(function);
        OPTRT_RETURN_IF_ERROR(
            status.withContext(concat("call ", i, " of ", call.function)));
      }
    }
    if (carried.empty())
      return okStatus();
    const auto &[number, start] = *carried.begin();
    return wrong(concat(start.name, " is carried under number ", number,
                        ", and nothing in the sequence waits for it"));
  }

private:
  /// A call that carries nothing, while nothing is carried, leaves all as it is.
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
  };

  Status step(const FunctionT &function) {
    if (!matters(function))
      return okStatus();
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
        return wrong(concat(nameOf(target, table, function, number),
                            " starts while ", OPTRT_MAX_IN_FLIGHT,
                            " others of its queue are under way, some from "
                            "earlier calls"));
      const uint32_t token = carriedOf(command);
      if (token == 0)
        continue;
      std::string name = nameOf(target, table, function, number);
      auto [place, isNew] = carried.try_emplace(token, Start{name, axes});
      if (!isNew)
        return wrong(concat(name, " is carried under number ", token,
                            ", as is ", place->second.name,
                            ", which nothing has waited for"));
    }
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
    if (start == carried.end())
      return wrong(concat(nameOf(target, table, function, number),
                          " waits for number ", wait.carried,
                          ", which nothing before it in the sequence has "
                          "started"));
    --underWay[start->second.axes];
    carried.erase(start);
    return okStatus();
  }

  const TargetT &target;
  const ProgramTableT &table;
  std::map<const FunctionT *, bool> carries;
  size_t numSteps = 0;
  std::map<uint32_t, Start> carried;
  std::map<std::vector<uint32_t>, int> underWay;
};

Status checkCall(const CallT &call, const ProgramTableT &table) {
  const FunctionT *function = findFunction(table, call.function);
  if (!function)
    return wrong(concat("calls \"", call.function, "\", which there is not"));
  std::set<uint32_t> bound;
  for (const std::unique_ptr<BindingT> &binding : call.bindings)
    if (binding->argument >= function->arguments.size() ||
        binding->buffer.empty() || !bound.insert(binding->argument).second)
      return wrong(concat("binds argument ", binding->argument, " of ",
                          call.function, " to \"", binding->buffer,
                          "\"; expected one of ", function->arguments.size(),
                          " arguments, each once, and a buffer"));
  return okStatus();
}

} // namespace

std::string axesName(const Mesh &mesh, std::span<const uint32_t> axes) {
  std::string text;
  for (uint32_t axis : axes)
    text += (text.empty() ? "" : "+") + mesh.axes()[axis].name;
  return text;
}

CollectiveOrder orderOfCollectives(const TargetT &target,
                                   const ProgramTableT &table,
                                   const FunctionT &function) {
  CollectiveOrder order;
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    const CollectiveT *one = command.action.AsCollective();
    if (!one)
      continue;
    std::string what = concat(
        describeAction(target, command),
        one->reduction == Reduction::Max ? " of maxima" : "", " of ",
        one->outer, "x", one->inner, " ", toString(command.operands[0]->type));
    if (one->root != 0)
      what += concat(" from or to ", one->root);
    order[one->axes].push_back(
        {nameOf(target, table, function, number), std::move(what)});
  }
  return order;
}

Status compareStarts(const std::string &function, const std::string &axes,
                     const Starts &one, const Starts &other) {
  auto differ = [&](size_t i) {
    return i >= one.list.size() || i >= other.list.size() ||
           one.list[i].what != other.list[i].what;
  };
  const size_t count = std::max(one.list.size(), other.list.size());
  for (size_t i = 0; i != count; ++i) {
    if (!differ(i))
      continue;
    auto say = [i](const Starts &starts) {
      return i < starts.list.size()
                 ? concat(starts.list[i].name, ", ", starts.list[i].what)
                 : std::string("none");
    };
    return wrong(concat("ranks ", one.rank, " and ", other.rank,
                        " start different collectives: number ", i + 1, " of ",
                        function, " on mesh axis ", axes, " is ", say(one),
                        ", on rank ", one.rank, ", and ", say(other),
                        ", on rank ", other.rank));
  }
  return okStatus();
}

SequenceT &addSequence(ProgramsT &programs, std::string name,
                       const Calls &calls) {
  auto sequence = std::make_unique<SequenceT>();
  sequence->name = std::move(name);
  for (const auto &[function, times] : calls) {
    auto call = std::make_unique<CallT>();
    call->function = function;
    call->times = times;
    sequence->calls.push_back(std::move(call));
  }
  programs.sequences.push_back(std::move(sequence));
  return *programs.sequences.back();
}

const SequenceT *findSequence(const ProgramsT &programs,
                              std::string_view name) {
  for (const std::unique_ptr<SequenceT> &sequence : programs.sequences)
    if (sequence->name == name)
      return sequence.get();
  return nullptr;
}

Status checkCollectives(const TargetT &target, const Mesh &mesh) {
  if (target.tables.size() == 1)
    return okStatus();
  for (const std::unique_ptr<FunctionT> &function :
       target.tables.front()->functions) {
    std::map<const ProgramTableT *, CollectiveOrder> orders;
    std::set<std::vector<uint32_t>> axes;
    for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
      CollectiveOrder &order = orders[table.get()];
      order = orderOfCollectives(target, *table,
                                 *findFunction(*table, function->name));
      for (const auto &[list, starts] : order)
        axes.insert(list);
    }
    for (const std::vector<uint32_t> &list : axes) {
      std::set<std::pair<const ProgramTableT *, const ProgramTableT *>> alike;
      for (int64_t rank = 0; rank != mesh.numRanks(); ++rank) {
        const int64_t first = mesh.firstOfGroup(rank, list);
        const ProgramTableT &own = tableOf(target, rank),
                            &other = tableOf(target, first);
        if (&own == &other || !alike.insert({&own, &other}).second)
          continue;
        OPTRT_RETURN_IF_ERROR(compareStarts(
            function->name, axesName(mesh, list), {first, orders[&other][list]},
            {rank, orders[&own][list]}));
      }
    }
  }
  return okStatus();
}

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
           place->bytes->readings.empty() &&
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

Status checkSequence(const SequenceT &sequence, const TargetT &target) {
  if (sequence.calls.empty())
    return wrong("calls nothing");
  // All tables have functions of the same names.
  for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
    for (const std::unique_ptr<CallT> &call : sequence.calls)
      OPTRT_RETURN_IF_ERROR(checkCall(*call, *table));
    OPTRT_RETURN_IF_ERROR(SequenceChecker(target, *table).run(sequence));
  }
  return okStatus();
}

} // namespace optimus_support::program
