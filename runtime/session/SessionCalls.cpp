//===- SessionCalls.cpp - Functions and sequences that are run ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "model/ProgramAgreement.h"
#include "optimus-runtime/RankTeam.h"

#include <algorithm>

using optimus_support::program::findFunction;
using optimus_support::program::findSequence;
using optimus_support::program::partsOf;
using optimus_support::program::SequencedCall;
using optimus_support::program::SequencePart;
using optimus_support::program::tableOf;

namespace optrt {
namespace {

/// While it lives, the calling thread gives a device commands.
class Commanding {
public:
  explicit Commanding(Device &device) : device(device) {
    device.beginCommands();
  }
  ~Commanding() { device.endCommands(); }
  Commanding(const Commanding &) = delete;
  Commanding &operator=(const Commanding &) = delete;

private:
  Device &device;
};

} // namespace

std::size_t Session::addCallable(Callable callable, RankPlan &plan) {
  for (int64_t buffer : callable.buffers)
    callable.readsBatch |=
        manifest().buffers[buffer].filledBy == FilledBy::Data;
  const auto found = std::ranges::find_if(callables, [&](const Callable &one) {
    return one.function == callable.function && one.buffers == callable.buffers;
  });
  const auto number = static_cast<std::size_t>(found - callables.begin());
  if (found == callables.end())
    callables.push_back(std::move(callable));
  for (RankPlan &one : plans)
    one.calls.resize(callables.size());
  plan.calls[number] = true;
  return number;
}

Status Session::chooseSequences(const SessionOptions &options, RankPlan &plan) {
  auto add = [&](const std::vector<SequencedCall> &calls) {
    std::vector<std::size_t> numbers;
    for (const SequencedCall &call : calls) {
      const Function &function = *manifest().findFunction(call.call->function);
      numbers.push_back(addCallable(
          {&function, buffersOf(manifest(), call, function)}, plan));
    }
    return numbers;
  };
  for (const std::string &name : options.sequences) {
    const auto *sequence = findSequence(*plan.table, name);
    if (!sequence)
      return invalidArgument("model library `" + library.path() +
                             "` has no sequence " + name);
    // What calls name is there: checkAgreement() has seen to it.
    ChosenSequence chosen{name, {}};
    for (const SequencePart &part : partsOf(*sequence))
      chosen.parts.push_back({add(part.once), add(part.repeated)});
    plan.sequences.push_back(std::move(chosen));
  }
  return okStatus();
}

Status Session::chooseCalls(const SessionOptions &options) {
  for (const auto &table : library.target().tables)
    plans.emplace_back().table = table.get();
  for (const std::string &name : options.functions) {
    const Function *function = manifest().findFunction(name);
    if (!function)
      return invalidArgument("model library `" + library.path() +
                             "` has no function " + name);
    Callable callable{function, {}};
    for (const Arg &arg : function->args)
      callable.buffers.push_back(arg.buffer);
    for (RankPlan &plan : plans)
      if (findFunction(*plan.table, name))
        addCallable(callable, plan);
  }
  for (RankPlan &plan : plans)
    OPTRT_RETURN_IF_ERROR(chooseSequences(options, plan));
  return okStatus();
}

const Session::RankPlan &Session::planOf(int64_t rank) const {
  const auto *table = &tableOf(library.target(), rank);
  return *std::ranges::find(plans, table, &RankPlan::table);
}

Status Session::checkIdle(const char *what) const {
  if (!team->isBusy())
    return okStatus();
  return internal(concat(what, " while a call is under way: collect() it "
                               "before"));
}

bool Session::isOfBatch(int64_t buffer) const {
  return manifest().buffers[buffer].filledBy == FilledBy::Data ||
         random == buffer;
}

Status Session::checkFilled(const Call &call) const {
  const Callable &callable = callables[call.callable];
  for (int64_t index : callable.buffers) {
    const Buffer &buffer = manifest().buffers[index];
    if (!isHeld(index) && !std::ranges::binary_search(staged, index))
      return invalidArgument(
          concat(callable.function->name, " reads \"", buffer.name,
                 "\", which has memory only while it is set: load, initialize "
                 "or assign it, and it is prepared"));
    if (buffer.filledBy != FilledBy::Program && !isFilled[index] &&
        !(call.batch && isOfBatch(index)))
      return invalidArgument(
          concat(callable.function->name, " reads \"", buffer.name,
                 "\", which the ", toString(buffer.filledBy),
                 " must fill, and nothing has: this program knows of no such "
                 "value; use the one that came with the compiler of `",
                 library.path(), "`"));
  }
  return okStatus();
}

void Session::follow(const Call &call, std::set<int64_t> &prepared) const {
  const Callable &callable = callables[call.callable];
  for (std::size_t i = 0; i != callable.buffers.size(); ++i) {
    const Buffer &buffer = manifest().buffers[callable.buffers[i]];
    if (callable.function->args[i].access == Access::Read)
      continue;
    if (buffer.isPrepared())
      prepared.insert(callable.buffers[i]);
    else if (buffer.lifetime == Lifetime::Parameter)
      std::erase_if(prepared, [&](int64_t other) {
        return manifest().buffers[other].of == callable.buffers[i];
      });
  }
}

Status Session::checkPrepared(const Call &call,
                              const std::set<int64_t> &prepared) const {
  const Callable &callable = callables[call.callable];
  for (std::size_t i = 0; i != callable.buffers.size(); ++i) {
    const Buffer &buffer = manifest().buffers[callable.buffers[i]];
    if (callable.function->args[i].access == Access::Read &&
        buffer.isPrepared() && !prepared.contains(callable.buffers[i]))
      return invalidArgument(concat(
          callable.function->name, " reads \"", buffer.name,
          "\", which an entry of kind prepare must make of the parameter as it "
          "is now; run that one, or a sequence, before"));
  }
  return okStatus();
}

Status Session::prepareFor(const Function &reader) {
  for (const Function *preparer : manifest().findPreparersOf(reader)) {
    auto isFresh = [&](const RankPlan &plan) {
      return std::ranges::all_of(preparer->args, [&](const Arg &arg) {
        return arg.access == Access::Read || plan.fresh.contains(arg.buffer);
      });
    };
    if (!std::ranges::all_of(plans, isFresh))
      OPTRT_RETURN_IF_ERROR(run(preparer->name).status());
  }
  return okStatus();
}

void Session::forgetPrepared() {
  for (RankPlan &plan : plans)
    plan.fresh.clear();
}

Status Session::setInTurns(const SetBuffers &set) {
  forgetPrepared();
  Status status = set(held);
  if (sources.empty())
    return status;
  // All processes come to the turns, or none.
  OPTRT_RETURN_IF_ERROR(control.agree(std::move(status)));
  return takeTurns(makeTurns(sources), set);
}

Status Session::takeTurns(const std::vector<Turn> &turns,
                          const SetBuffers &set) {
  int64_t most = 0;
  for (const Turn &turn : turns)
    most = std::max(most, bytesOf(turn));
  // All have the same memory, one after the other.
  Status status = control.agree(onRanks(
      [&](LocalRank &rank) { return rank.buffers.reserveStage(most); }));
  for (const Turn &turn : turns)
    if (status.ok())
      status = control.agree(takeTurn(turn, set));
  Status over =
      onRanks([](LocalRank &rank) { return rank.buffers.reserveStage(0); });
  return status.ok() ? over : status;
}

Status Session::takeTurn(const Turn &turn, const SetBuffers &set) {
  Status status = control.agree(onRanks([&](LocalRank &rank) -> Status {
    OPTRT_RETURN_IF_ERROR(rank.buffers.stage(turn.sources));
    for (std::size_t call : turn.calls)
      OPTRT_RETURN_IF_ERROR(bindCall(rank, call));
    return okStatus();
  }));
  staged = turn.sources;
  if (status.ok())
    status = set(turn.sources);
  for (std::size_t call : turn.calls)
    if (status.ok())
      status = run(callables[call].function->name).status();
  staged.clear();
  Status over = onRanks([&](LocalRank &rank) {
    for (std::size_t call : turn.calls)
      rank.programs[call].reset();
    rank.buffers.unstage();
    return okStatus();
  });
  return status.ok() ? over : status;
}

template <typename Body>
Status Session::onLanes(LocalRank &rank, Body body) {
  for (int64_t place = rank.range.first; place != rank.range.end; ++place) {
    rank.buffers.chooseLane(place);
    OPTRT_RETURN_IF_ERROR(body(rank.lanes[place]));
  }
  return okStatus();
}

Status Session::beginCall(LocalRank &rank, const Call &call) {
  OPTRT_RETURN_IF_ERROR(onLanes(rank, [&](int64_t lane) -> Status {
    OPTRT_RETURN_IF_ERROR(reset(rank, Reset::Call));
    if (!call.batch)
      return okStatus();
    const CallInputs &inputs = givenInputs[lane][*call.batch];
    OPTRT_RETURN_IF_ERROR(fill(rank, inputs.batch));
    return random && rank.plan.holds(*random)
               ? rank.buffers.setWords(*random, inputs.random)
               : okStatus();
  }));
  rank.context.function = static_cast<uint32_t>(
      callables[call.callable].function - manifest().functions.data());
  rank.context.observer =
      rank.observer && rank.observer->beginCall(call.callable) ? rank.observer
                                                               : nullptr;
  Status status = rank.programs[call.callable]->run(rank.context, rank.range);
  if (!status.ok())
    rank.context.abandonCall();
  return status;
}

Status Session::endCall(LocalRank &rank) {
  OPTRT_RETURN_IF_ERROR(rank.context.endCall());
  rank.transfers.add(rank.context.device->takeTransfers());
  rank.hasSubnormals |= rank.context.device->takeSubnormals();
  if (rank.context.observer)
    rank.context.observer->endCall();
  return okStatus();
}

Status Session::checkCalls(const std::vector<Call> &calls, const RankPlan &plan,
                           std::set<int64_t> &prepared) const {
  prepared = plan.fresh;
  const Call *before = nullptr;
  for (const Call &call : calls) {
    // The second in a row finds what the first has left.
    const Call *last = std::exchange(before, &call);
    if (last && last->callable == call.callable)
      continue;
    OPTRT_RETURN_IF_ERROR(checkFilled(call));
    OPTRT_RETURN_IF_ERROR(checkPrepared(call, prepared));
    follow(call, prepared);
  }
  return okStatus();
}

Status Session::submit(std::vector<std::vector<Call>> calls,
                       std::initializer_list<Reset> first, Lanes which,
                       LaneInputs inputs) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a call was submitted"));
  // What could not be set before the call.
  OPTRT_RETURN_IF_ERROR(std::exchange(failedToSet, okStatus()));
  std::vector<std::set<int64_t>> prepared(plans.size());
  for (std::size_t i = 0; i != plans.size(); ++i)
    OPTRT_RETURN_IF_ERROR(checkCalls(calls[i], plans[i], prepared[i]));
  for (std::size_t i = 0; i != plans.size(); ++i)
    plans[i].fresh = std::move(prepared[i]);
  submitted = std::move(calls);
  givenInputs.assign(lanes.size(), {});
  for (std::size_t lane = 0; lane != lanes.size(); ++lane)
    if (isOf(which, lane) && !inputs.empty()) {
      givenInputs[lane] = inputs.front();
      inputs = inputs.subspan(1);
    }
  for (std::size_t i = 0; i != ranks.size(); ++i) {
    const std::vector<int64_t> &own = ranks[i]->lanes;
    auto isCalled = [&](int64_t lane) { return isOf(which, lane); };
    const auto begin = std::ranges::find_if(own, isCalled);
    const auto end = std::find_if_not(begin, own.end(), isCalled);
    ranks[i]->range = {begin - own.begin(), end - own.begin()};
  }
  auto hasInputs = [](const std::vector<Call> &list) {
    return std::ranges::any_of(
        list, [](const Call &call) { return call.batch.has_value(); });
  };
  for (int64_t buffer : held)
    if (isOfBatch(buffer) && std::ranges::any_of(submitted, hasInputs))
      isFilled[buffer] = true;
  // The last call is left to finish: a single rank has put it on its device's
  // queues by then.
  auto start = [this, resets = std::vector(first)](int i) -> Status {
    LocalRank &rank = *ranks[i];
    rank.context.resetCounters();
    rank.transfers = {};
    rank.hasSubnormals = false;
    if (rank.range.first == rank.range.end)
      return okStatus();
    const Commanding commanding(*rank.context.device);
    for (Reset when : resets)
      OPTRT_RETURN_IF_ERROR(
          onLanes(rank, [&](int64_t) { return reset(rank, when); }));
    const std::vector<Call> &list = submitted[&rank.plan - plans.data()];
    for (const Call &call : list) {
      OPTRT_RETURN_IF_ERROR(beginCall(rank, call));
      if (&call != &list.back())
        OPTRT_RETURN_IF_ERROR(endCall(rank));
    }
    return okStatus();
  };
  return team->submit(std::move(start), [this](int i) {
    LocalRank &rank = *ranks[i];
    if (rank.range.first == rank.range.end)
      return okStatus();
    const Commanding commanding(*rank.context.device);
    return endCall(rank);
  });
}

Status Session::finishCarried() {
  OPTRT_RETURN_IF_ERROR(checkIdle("what is carried was waited for"));
  lastSequence.clear();
  if (broken || std::ranges::none_of(ranks, [](const auto &rank) {
        return rank && rank->context.isCarrying();
      }))
    return okStatus();
  Status status =
      onRanks([](LocalRank &rank) { return rank.context.finishCarried(); });
  broken |= !status.ok();
  return status;
}

Status Session::submit(std::string_view name) {
  OPTRT_RETURN_IF_ERROR(finishCarried());
  const Function *function = manifest().findFunction(name);
  for (std::size_t number = 0; number != callables.size(); ++number) {
    if (callables[number].function != function)
      continue;
    for (const RankPlan &plan : plans)
      if (!plan.calls[number])
        return invalidArgument(
            concat("some ranks have no function ", name,
                   ": expected one of all ranks, or a sequence"));
    return submit(std::vector(plans.size(), std::vector<Call>{{number}}), {},
                  Lanes::Chosen, {});
  }
  return internal(concat("the function ", name, " was not chosen"));
}

StatusOr<std::vector<Session::Call>> Session::callsOf(const RankPlan &plan,
                                                      std::string_view name,
                                                      int64_t times) const {
  const auto sequence =
      std::ranges::find(plan.sequences, name, &ChosenSequence::name);
  if (sequence == plan.sequences.end())
    return internal(concat("the sequence ", name, " was not chosen"));
  if (times < 1)
    return internal(concat("the sequence ", name, " was to run ", times,
                           " calls in a row; expected at least 1"));
  std::vector<Call> calls;
  auto add = [&](const std::vector<std::size_t> &numbers) {
    for (std::size_t number : numbers)
      calls.push_back({number});
  };
  for (const ChosenPart &part : sequence->parts) {
    add(part.once);
    for (int64_t turn = 0; turn != times && !part.repeated.empty(); ++turn)
      add(part.repeated);
  }
  return calls;
}

std::size_t Session::countBatches(const std::vector<Call> &calls) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(calls, [&](const Call &call) {
        return callables[call.callable].readsBatch;
      }));
}

StatusOr<std::size_t> Session::countBatches(std::string_view name,
                                            int64_t times) const {
  std::size_t most = 0;
  for (const RankPlan &plan : plans) {
    OPTRT_ASSIGN_OR_RETURN(const std::vector<Call> calls,
                           callsOf(plan, name, times));
    most = std::max(most, countBatches(calls));
  }
  return most;
}

Status Session::submitSequence(std::string_view name, int64_t times,
                               std::span<const CallInputs> inputs) {
  return submitSequence(name, times, Lanes::Chosen, {&inputs, 1});
}

Status
Session::submitLanes(std::string_view name, int64_t times,
                     std::span<const std::span<const CallInputs>> inputs) {
  return submitSequence(name, times, Lanes::All, inputs);
}

Status Session::submitSequence(std::string_view name, int64_t times,
                               Lanes which, LaneInputs inputs) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a sequence was submitted"));
  std::vector<std::vector<Call>> calls;
  std::size_t expected = 0;
  for (const RankPlan &plan : plans) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<Call> own, callsOf(plan, name, times));
    expected = std::max(expected, countBatches(own));
    calls.push_back(std::move(own));
  }
  for (std::vector<Call> &own : calls) {
    const std::size_t count = countBatches(own);
    // Some ranks may read none.
    for (std::span<const CallInputs> ofLane : inputs)
      if (ofLane.size() != expected || (count != 0 && count != expected))
        return internal(concat("the sequence ", name, " was given ",
                               ofLane.size(), " batches; expected ",
                               count != 0 ? count : expected));
    std::size_t next = 0;
    for (Call &call : own)
      if (callables[call.callable].readsBatch)
        call.batch = next++;
  }
  std::size_t called = 0;
  for (std::size_t lane = 0; lane != lanes.size(); ++lane)
    called += isOf(which, lane);
  if (inputs.size() != called)
    return internal(concat("the sequence ", name, " was given batches of ",
                           inputs.size(), " lanes; expected ", called));
  for (std::span<const CallInputs> ofLane : inputs)
    for (const CallInputs &one : ofLane)
      OPTRT_RETURN_IF_ERROR(checkRead(one.batch));
  // Only the same sequence waits for what it has carried.
  if (name != lastSequence)
    OPTRT_RETURN_IF_ERROR(finishCarried());
  lastSequence = name;
  return submit(std::move(calls), {Reset::Step, Reset::Sequence}, which,
                inputs);
}

StatusOr<StepOutputs> Session::collect() {
  const bool hasRun = team->isBusy();
  Status status = team->collect();
  broken |= hasRun && !status.ok();
  OPTRT_RETURN_IF_ERROR(status);
  // Calls have gone from lane to lane.
  chooseLane(chosenLane);
  OPTRT_ASSIGN_OR_RETURN(StepOutputs all, outputs());
  // Where all write the same, each process has it.
  const bool isAlike = std::ranges::all_of(plans, [&](const RankPlan &plan) {
    return plan.numbers == plans.front().numbers;
  });
  if (!isAlike && control.numLocalRanks() != control.size())
    OPTRT_RETURN_IF_ERROR(addOutputs(all));
  return all;
}

StatusOr<StepOutputs> Session::run(std::string_view function) {
  OPTRT_RETURN_IF_ERROR(submit(function));
  return collect();
}

} // namespace optrt
