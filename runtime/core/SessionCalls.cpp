//===- SessionCalls.cpp - Functions and sequences that are run ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "optimus-runtime/RankTeam.h"

#include <algorithm>

namespace optrt {

std::size_t Session::addCallable(Callable callable) {
  for (std::size_t i = 0; i != callables.size(); ++i)
    if (callables[i].function == callable.function &&
        callables[i].buffers == callable.buffers)
      return i;
  for (int64_t buffer : callable.buffers)
    callable.readsBatch |=
        manifest().buffers[buffer].filledBy == FilledBy::Data;
  callables.push_back(std::move(callable));
  return callables.size() - 1;
}

Status Session::chooseCalls(const SessionOptions &options) {
  auto find = [&](const std::string &name) -> StatusOr<Callable> {
    const Function *function = manifest().findFunction(name);
    if (!function)
      return invalidArgument("model library `" + library.path() +
                             "` has no function " + name);
    Callable callable{function, {}};
    for (const Arg &arg : function->args)
      callable.buffers.push_back(arg.buffer);
    return callable;
  };
  for (const std::string &name : options.functions) {
    OPTRT_ASSIGN_OR_RETURN(Callable callable, find(name));
    addCallable(std::move(callable));
  }
  for (const std::string &name : options.sequences) {
    const optimus_support::program::SequenceT *sequence =
        optimus_support::program::findSequence(library.programs(), name);
    if (!sequence)
      return invalidArgument("model library `" + library.path() +
                             "` has no sequence " + name);
    ChosenSequence chosen{name, {}};
    for (const auto &call : sequence->calls) {
      OPTRT_ASSIGN_OR_RETURN(Callable callable, find(call->function));
      // What they name is there: checkAgreement() has seen to it.
      for (const auto &binding : call->bindings)
        callable.buffers[binding->argument] =
            *manifest().findBuffer(binding->buffer);
      chosen.calls.emplace_back(addCallable(std::move(callable)), call->times);
    }
    sequences.push_back(std::move(chosen));
  }
  return okStatus();
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
    if (!isHeld(index))
      return invalidArgument(
          concat(callable.function->name, " reads \"", buffer.name,
                 "\", whose memory was given back when it had been prepared: "
                 "create another session"));
    if (buffer.filledBy != FilledBy::Program && !isFilled[index] &&
        !(call.inputs && isOfBatch(index)))
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
  auto isFresh = [&](const Arg &arg) {
    return arg.access == Access::Read || fresh.contains(arg.buffer);
  };
  for (const Function *preparer : manifest().findPreparersOf(reader))
    if (!std::ranges::all_of(preparer->args, isFresh))
      OPTRT_RETURN_IF_ERROR(run(preparer->name).status());
  return okStatus();
}

Status Session::releaseSources() {
  OPTRT_RETURN_IF_ERROR(checkIdle("parameters were released"));
  for (std::size_t i = 0; i != callables.size(); ++i)
    OPTRT_RETURN_IF_ERROR(checkPrepared({.callable = i}, fresh));
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    rank->buffers.releaseSources();
  for (int64_t source : sources)
    memory.parameters -= alignedSize(manifest().buffers[source].numBytes());
  std::erase_if(held, [&](int64_t buffer) {
    return std::binary_search(sources.begin(), sources.end(), buffer);
  });
  sources.clear();
  return okStatus();
}

Status Session::beginCall(LocalRank &rank, const Call &call) {
  OPTRT_RETURN_IF_ERROR(reset(rank, Reset::Call));
  if (call.inputs) {
    OPTRT_RETURN_IF_ERROR(fill(rank, call.inputs->batch));
    if (random)
      OPTRT_RETURN_IF_ERROR(
          rank.buffers.setWords(*random, call.inputs->random));
  }
  rank.context.function = static_cast<uint32_t>(
      callables[call.callable].function - manifest().functions.data());
  rank.context.observer =
      rank.observer && rank.observer->beginCall(call.callable) ? rank.observer
                                                               : nullptr;
  Status status = rank.programs[call.callable].run(rank.context);
  if (!status.ok())
    rank.context.abandonCall();
  return status;
}

Status Session::endCall(LocalRank &rank) {
  OPTRT_RETURN_IF_ERROR(rank.context.endCall());
  rank.transfers.add(rank.context.device->takeTransfers());
  if (rank.context.observer)
    rank.context.observer->endCall();
  return okStatus();
}

Status Session::submit(std::vector<Call> calls,
                       std::initializer_list<Reset> first) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a call was submitted"));
  // What could not be set before the call.
  OPTRT_RETURN_IF_ERROR(std::exchange(failedToSet, okStatus()));
  std::set<int64_t> prepared = fresh;
  bool hasInputs = false;
  const Call *before = nullptr;
  for (const Call &call : calls) {
    hasInputs |= call.inputs != nullptr;
    // The second in a row finds what the first has left.
    const Call *last = std::exchange(before, &call);
    if (last && last->callable == call.callable)
      continue;
    OPTRT_RETURN_IF_ERROR(checkFilled(call));
    OPTRT_RETURN_IF_ERROR(checkPrepared(call, prepared));
    follow(call, prepared);
  }
  fresh = std::move(prepared);
  submitted = std::move(calls);
  for (int64_t buffer : held)
    if (hasInputs && isOfBatch(buffer))
      isFilled[buffer] = true;
  // The last call is left to finish: a single rank has put it on its device's
  // queues by then.
  auto start = [this, resets = std::vector(first)](int i) -> Status {
    LocalRank &rank = *ranks[i];
    rank.context.resetCounters();
    rank.transfers = {};
    for (Reset when : resets)
      OPTRT_RETURN_IF_ERROR(reset(rank, when));
    for (const Call &call : submitted) {
      OPTRT_RETURN_IF_ERROR(beginCall(rank, call));
      if (&call != &submitted.back())
        OPTRT_RETURN_IF_ERROR(endCall(rank));
    }
    return okStatus();
  };
  return team->submit(std::move(start),
                      [this](int i) { return endCall(*ranks[i]); });
}

Status Session::submit(std::string_view name) {
  const Function *function = manifest().findFunction(name);
  for (std::size_t number = 0; number != callables.size(); ++number)
    if (callables[number].function == function)
      return submit({{number}}, {});
  return internal(concat("the function ", name, " was not chosen"));
}

Status Session::submitSequence(std::string_view name, int64_t times,
                               std::span<const CallInputs> inputs) {
  auto sequence =
      std::find_if(sequences.begin(), sequences.end(),
                   [&](const ChosenSequence &one) { return one.name == name; });
  if (sequence == sequences.end())
    return internal(concat("the sequence ", name, " was not chosen"));
  if (times < 1)
    return internal(concat("the sequence ", name, " was to run ", times,
                           " calls in a row; expected at least 1"));
  OPTRT_RETURN_IF_ERROR(checkIdle("a sequence was submitted"));
  std::vector<Call> calls;
  std::size_t numBatches = 0;
  for (const auto &[number, inARow] : sequence->calls)
    for (int64_t time = 0; time != (inARow ? inARow : times); ++time) {
      calls.push_back({number});
      if (callables[number].readsBatch && numBatches++ < inputs.size())
        calls.back().inputs = &inputs[numBatches - 1];
    }
  if (numBatches != inputs.size())
    return internal(concat("the sequence ", name, " was given ", inputs.size(),
                           " batches; expected ", numBatches));
  for (const CallInputs &one : inputs)
    OPTRT_RETURN_IF_ERROR(checkRead(one.batch));
  return submit(std::move(calls), {Reset::Step, Reset::Sequence});
}

StatusOr<StepOutputs> Session::collect() {
  const bool hasRun = team->isBusy();
  Status status = team->collect();
  broken |= hasRun && !status.ok();
  OPTRT_RETURN_IF_ERROR(status);
  return outputs();
}

StatusOr<StepOutputs> Session::run(std::string_view function) {
  OPTRT_RETURN_IF_ERROR(submit(function));
  return collect();
}

} // namespace optrt
