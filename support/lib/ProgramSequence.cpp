//===- ProgramSequence.cpp - That ranks and calls fit together ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include "optimus-support/model_abi.h"

#include <algorithm>
#include <map>
#include <set>

namespace optimus_support::program {

namespace {

/// "h.3.mlp.up (all_reduce, gpt2.py:151), command 12".
std::string nameOf(const TargetT &target, const ProgramTableT &table,
                   const FunctionT &function, uint32_t command) {
  std::string text = describe(target, table, function, command);
  return function.commands[command]->path == kNone
             ? text
             : concat(text, ", command ", command);
}

/// Of a sequence, with calls that are repeated twice.
constexpr size_t kMaxSteps = size_t(1) << 24;

/// Steps through a sequence on the ranks of a table.
class SequenceChecker {
public:
  SequenceChecker(const TargetT &target, const ProgramTableT &table)
      : target(target), table(table) {}

  Status run(const SequenceT &sequence) {
    for (size_t i = 0; i != sequence.calls.size(); ++i) {
      const CallT &call = *sequence.calls[i];
      const FunctionT &function = *findFunction(table, call.function);
      // The second call in a row stands for all later ones.
      for (int time = 0; time != (call.times == 1 ? 1 : 2); ++time)
        OPTRT_RETURN_IF_ERROR(step(function).withContext(
            concat("call ", i, " of ", call.function)));
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
